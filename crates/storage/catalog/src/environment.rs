//! LMDB's environment: one for each process. A forked child leaves its parent's environment, and a process reopens its own
//! after LMDB has refused further work.

use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use heed::{CompactionOption, Env, EnvFlags, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix_futex_sync::Mutex;
use terrace_system::fork::{self, Held};
use terrace_system::{Locked, open_regular};

use super::Records;
use super::file_check::{CheckDepth, check_data_file, measure_data_file};
use crate::{Error, Result};

/// Address space reserved for the catalog. Its file grows with its content only.
const MAP_BYTES: usize = 1 << 40;
/// The errors for a map that is too large: the system's, and valgrind's.
const TOO_MUCH: [i32; 2] = [libc::ENOMEM, libc::EINVAL];
/// The most read transactions at once, of all processes.
const MAX_READERS: u32 = 4096;
/// As many had room in a lock file of earlier versions. LMDB uses a file as it finds it while another process has it open.
const MIN_READERS: u32 = 512;
/// Bytes of a reader's entry in LMDB's lock file.
const READER_ENTRY_BYTES: u64 = 64;
/// An upper bound of the bytes before the readers' entries in LMDB's lock file.
const LOCK_FILE_HEADER_BYTES: u64 = 4096;
const DATA_FILE: &str = "data.mdb";
const LOCK_FILE: &str = "lock.mdb";
/// The folder in which a data file is made, below the catalog's.
const UNFINISHED_FOLDER: &str = "unfinished";
/// LMDB never gives free pages back to the file system. So a data file of at least this many bytes ...
const MIN_SHRUNK_BYTES: u64 = 4 << 20;
/// ... is replaced by a copy without free pages if it has at least this many times the bytes of its records.
const MOSTLY_FREE: u64 = 4;
/// A file of at most this many bytes is checked page by page when it is opened, which takes milliseconds.
const MAX_WALKED_BYTES: u64 = 16 << 20;
/// How often a read begins again because a newer commit has appeared, before it waits for that commit's process.
const MAX_READ_ATTEMPTS: usize = 32;
/// The longest wait for another thread of this process to close the environment.
const MAX_CLOSING_TIME: Duration = Duration::from_secs(10);

/// The number of the next environment. A fork inherits it.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A moment in the history of a catalog, as one process sees it. While it is the current one, all answers of the catalog stay the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    environment: u64,
    commit: usize,
}

/// An open environment and its one database.
pub struct Environment {
    env: Env<WithoutTls>,
    /// Tells it from all others that this process and those it was forked from have opened.
    number: u64,
    /// All records.
    pub records: Records,
    /// The lock on the catalog's folder, shared by all processes that have the environment open. Dropped after `env`: as
    /// long as LMDB uses the files, no other process may have the folder alone and replace them.
    _in_use: Locked,
    /// Keeps forks away while `env` is closed. Set by `drop`, since fields are dropped after it.
    held: Option<Held>,
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.held = Some(fork::hold());
    }
}

impl Deref for Environment {
    type Target = Env<WithoutTls>;

    fn deref(&self) -> &Env<WithoutTls> {
        &self.env
    }
}

impl Environment {
    fn open(folder: &Path) -> Result<Environment> {
        Environment::open_and_share(folder, |lock| lock.change(FlockOperation::LockShared))
    }

    /// `share` turns the lock on the folder into a shared one. The system releases the lock before it takes it again. In
    /// between, another process may be alone and replace the data file. A process that kept the old file would commit to a
    /// file without a name, so this opens the new one instead.
    fn open_and_share(folder: &Path, share: impl Fn(&Locked) -> io::Result<()>) -> Result<Environment> {
        let _held = fork::hold();
        let data = folder.join(DATA_FILE);
        let data_id = || {
            let found = fs::metadata(&data).map_err(Error::io(format!("looking at {}", data.display())))?;
            Ok::<_, Error>((found.dev(), found.ino()))
        };
        loop {
            let in_use = prepare_files(folder)?;
            let opened = data_id()?;
            let (env, records) = open_database(folder)?;
            share(&in_use).map_err(Error::io(format!("locking {}", folder.display())))?;
            // From here on nobody replaces the file: that takes the exclusive lock.
            if data_id()? == opened {
                let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
                return Ok(Environment { env, number, records, _in_use: in_use, held: None });
            }
            env.prepare_for_closing().wait();
        }
    }

    /// Returns the current moment: a look at two words of memory that all processes share.
    ///
    /// The newest meta page decides, as in [`Environment::read_txn`]: a transaction that begins later sees this commit or a newer one, and who
    /// still finds the same moment after it has seen another process's change would have found that commit's page instead.
    pub fn moment(&self) -> Moment {
        Moment { environment: self.number, commit: self.env.info().last_txn_id }
    }

    /// Begins to read the newest commit.
    ///
    /// LMDB publishes a commit in a meta page and then in a word of its lock file, which readers look at. A process that is killed
    /// between the two leaves a commit that a reader would miss until the next commit begins, although the locks of that process are
    /// free by then, and the process that takes one relies on what was committed under it.
    pub fn read_txn(&self) -> heed::Result<RoTxn<'_, WithoutTls>> {
        for _ in 0..MAX_READ_ATTEMPTS {
            let txn = self.begin_read()?;
            if txn.id() >= self.env.info().last_txn_id {
                return Ok(txn);
            }
        }
        // LMDB corrects the word when a process takes the write lock of one that has died. If the other one lives, this waits for
        // its commit. It never waits for itself: no thread begins to read while it commits.
        drop(self.env.write_txn()?);
        self.begin_read()
    }

    fn begin_read(&self) -> heed::Result<RoTxn<'_, WithoutTls>> {
        match self.env.read_txn() {
            // Processes that were killed while they read have left their entries.
            Err(heed::Error::Mdb(MdbError::ReadersFull)) if self.env.clear_stale_readers()? > 0 => self.env.read_txn(),
            begun => begun,
        }
    }
}

/// Checks every page of the catalog in `folder`, whatever its size. LMDB does not check them, and a damaged page may end the
/// process.
///
/// # Errors
/// [`Error::Damaged`] if a page is damaged or missing.
pub fn check_pages(folder: &Path) -> Result<()> {
    check_data_file(&folder.join(DATA_FILE), MAP_BYTES, CheckDepth::Pages)
}

/// Makes LMDB's data file if it is missing, or checks the one that is there. Returns the lock on the folder that every process
/// with an open environment holds: exclusive if no other process has the environment open, otherwise shared.
fn prepare_files(folder: &Path) -> Result<Locked> {
    let lock = |take: fn(File) -> io::Result<_>| File::open(folder).and_then(take);
    let context = || format!("locking {}", folder.display());
    let data = folder.join(DATA_FILE);
    // LMDB would wait for ever if this were a pipe.
    match open_regular(&folder.join(LOCK_FILE)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("opening LMDB's lock file")(e)),
        _ => {}
    }
    // The lock orders making and checking: nobody checks a file that another process is still making.
    if let Some(alone) = lock(Locked::at_once).map_err(Error::io(context()))? {
        match data.try_exists() {
            Ok(true) => {
                let bytes = fs::metadata(&data).map_or(u64::MAX, |found| found.len());
                let depth = if bytes <= MAX_WALKED_BYTES { CheckDepth::Pages } else { CheckDepth::Length };
                check_data_file(&data, MAP_BYTES, depth)?;
                allocate_lock_file(folder)?;
                shrink_data_file(folder)?;
            }
            Ok(false) => {
                allocate_lock_file(folder)?;
                make_data_file(folder)?;
            }
            Err(e) => return Err(Error::io(format!("looking for {}", data.display()))(e)),
        }
        return Ok(alone);
    }
    let shared = lock(|file| Locked::share(file).map(Some)).map_err(Error::io(context()))?;
    let Some(shared) = shared else { return Err(Error::io(context())(io::ErrorKind::WouldBlock.into())) };
    // LMDB would create a missing file, and would work with it while other processes still have the old one open.
    for (name, least) in [(DATA_FILE, 1), (LOCK_FILE, u64::from(MIN_READERS - 1) * READER_ENTRY_BYTES)] {
        let path = folder.join(name);
        if fs::metadata(&path).map_or(0, |found| found.len()) < least {
            return Err(Error::Unusable {
                path,
                reason:
                    "it was removed or cut while other processes use the store; end them, then run `terrace rebuild`"
                        .into(),
            });
        }
    }
    check_data_file(&data, MAP_BYTES, CheckDepth::Length)?;
    Ok(shared)
}

/// Allocates all the space that LMDB's lock file may need, and more if an earlier version has made it. LMDB maps a sparse file, and
/// on a full disk the first write to a page without space would end the process. Closing the file here drops none of LMDB's locks,
/// because nobody has the environment open, not even this process.
///
/// # Errors
/// If the disk has no room for it, and the file had none before.
fn allocate_lock_file(folder: &Path) -> Result<()> {
    let path = folder.join(LOCK_FILE);
    let context = || format!("allocating {}", path.display());
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(Error::io(context()))?;
    let found = file.metadata().map_err(Error::io(context()))?;
    let held = if found.blocks() == 0 { 0 } else { found.len() };
    let bytes = LOCK_FILE_HEADER_BYTES + u64::from(MAX_READERS) * READER_ENTRY_BYTES;
    let allocated = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from) {
        // Some file systems cannot allocate. A file of zeros is what LMDB makes.
        Err(error) if error.kind() != io::ErrorKind::StorageFull => {
            file.write_all_at(&vec![0; bytes.saturating_sub(held) as usize], held)
        }
        allocated => allocated,
    };
    match allocated {
        // It has room for as many readers as it ever had at once.
        Err(error) if held > 0 => {
            tracing::debug!(%error, "LMDB's lock file may lack room for more readers");
            Ok(())
        }
        allocated => allocated.map_err(Error::io(context())),
    }
}

/// The most readers for whom the lock file has room, which [`allocate_lock_file`] has made. LMDB would lengthen a shorter file, with
/// a hole at its end.
fn readers_with_room(folder: &Path) -> u32 {
    let bytes = fs::metadata(folder.join(LOCK_FILE)).map_or(0, |found| found.len());
    let entries = bytes.saturating_sub(LOCK_FILE_HEADER_BYTES) / READER_ENTRY_BYTES;
    u32::try_from(entries).unwrap_or(MAX_READERS).clamp(1, MAX_READERS)
}

/// Makes an empty data file. It gets its name once it is whole. So a short file was cut: a killed process never leaves one.
fn make_data_file(folder: &Path) -> Result<()> {
    replace_data_file(folder, |unfinished| {
        allocate_lock_file(unfinished)?;
        let (env, _) = open_database(unfinished)?;
        env.prepare_for_closing().wait();
        Ok(())
    })
}

/// Replaces a data file that mostly has free pages by a copy without them. No other process has the environment open. If this
/// fails, for example on a full file system, the file stays as it is, which costs space and nothing else.
fn shrink_data_file(folder: &Path) -> Result<()> {
    let data = folder.join(DATA_FILE);
    let (bytes, used) = measure_data_file(&data).map_err(Error::io(format!("measuring {}", data.display())))?;
    if bytes < MIN_SHRUNK_BYTES || bytes / MOSTLY_FREE < used {
        return Ok(());
    }
    let shrunk = replace_data_file(folder, |unfinished| {
        let (env, _) = open_database(folder)?;
        let copied = env.copy_to_path(unfinished.join(DATA_FILE), CompactionOption::Enabled);
        env.prepare_for_closing().wait();
        // The boot mark may say that the catalog is durable. Then the file must be durable under either name, the old or the
        // new.
        copied?.sync_all().map_err(Error::io(format!("syncing a copy of {}", data.display())))?;
        check_data_file(&unfinished.join(DATA_FILE), MAP_BYTES, CheckDepth::Pages)?;
        terrace_system::fail::point("catalog:shrunk");
        Ok(())
    });
    match shrunk {
        Ok(()) => {
            tracing::info!(catalog = %folder.display(), bytes, used, "free pages were taken out of the catalog's file")
        }
        Err(error) => tracing::warn!(%error, "the catalog's file stays larger than it need be"),
    }
    terrace_system::fail::point("catalog:named");
    Ok(())
}

/// Replaces the data file by the one that `make` writes into a folder of its own. On success the name is durable, and so are
/// the bytes if `make` has synced them. On failure the data file is as it was.
fn replace_data_file(folder: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unfinished = folder.join(UNFINISHED_FOLDER);
    let context = || format!("making {}", unfinished.display());
    let clear = || match fs::remove_dir_all(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(context())(e)),
        _ => Ok(()),
    };
    clear()?;
    fs::DirBuilder::new().mode(0o700).create(&unfinished).map_err(Error::io(context()))?;
    make(&unfinished)?;
    fs::rename(unfinished.join(DATA_FILE), folder.join(DATA_FILE)).map_err(Error::io(context()))?;
    sync_names(folder).map_err(Error::io(context()))?;
    clear()
}

fn open_database(folder: &Path) -> Result<(Env<WithoutTls>, Records)> {
    let env = open(folder)?;
    env.clear_stale_readers()?;
    let mut txn = env.write_txn()?;
    let records = env.create_database(&mut txn, None)?;
    txn.commit()?;
    Ok((env, records))
}

/// Makes the names of a new catalog durable. A later sync of LMDB covers bytes only, and a store that was closed cleanly must
/// find its catalog after a power cut.
fn sync_names(folder: &Path) -> io::Result<()> {
    [Some(folder), folder.parent()].into_iter().flatten().try_for_each(|folder| File::open(folder)?.sync_all())
}

/// Holds the environment of this process, and reopens it after a failure.
pub struct Holder {
    folder: PathBuf,
    forks: u32,
    /// None after [`Holder::leave`], and while the environment is reopened.
    current: ArcSwapOption<Environment>,
    /// Whether a commit has failed. If the meta page could not be written, LMDB refuses all work until it is reopened. All
    /// earlier commits are whole. Set with release, read with acquire: a thread that reads false after a reopening must also
    /// see the new `current`.
    failed: AtomicBool,
    /// Held while the environment is reopened, so that only one thread does it. Under it, the thread waits until all others
    /// have dropped the old environment, for `MAX_CLOSING_TIME` at most.
    reopening: Mutex<()>,
}

impl Holder {
    /// Opens the environment in `folder`. Creates the folder if it is missing. No other code of this process may open files
    /// in it: closing any descriptor of LMDB's lock file would drop LMDB's locks.
    pub fn open(folder: &Path) -> Result<Holder> {
        let context = || format!("making {}", folder.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::io(context()))?;
        Ok(Holder {
            folder: folder.to_owned(),
            forks: fork::count(),
            current: ArcSwapOption::from_pointee(Environment::open(folder)?),
            failed: AtomicBool::new(false),
            reopening: Mutex::default(),
        })
    }

    /// The environment, if this is the process that opened it.
    pub fn get(&self) -> Result<Arc<Environment>> {
        if self.inherited() {
            return Err(Error::Unusable {
                path: self.folder.clone(),
                reason: "it was opened before this process was forked; open the store again here".into(),
            });
        }
        match self.usable() {
            Some(environment) => Ok(environment),
            None => self.reopen(),
        }
    }

    fn usable(&self) -> Option<Arc<Environment>> {
        if self.failed.load(Ordering::Acquire) { None } else { self.current.load_full() }
    }

    fn reopen(&self) -> Result<Arc<Environment>> {
        let _one_at_a_time = self.reopening.lock();
        if let Some(environment) = self.usable() {
            return Ok(environment);
        }
        // The old environment is closed when the last thread that uses it is done. `Environment::open` waits for that.
        self.current.store(None);
        let environment = Arc::new(Environment::open(&self.folder)?);
        tracing::warn!(
            catalog = %self.folder.display(),
            "a write to the catalog failed, and the catalog was reopened; see whether the disk of the store's directory is full or failing"
        );
        self.current.store(Some(environment.clone()));
        self.failed.store(false, Ordering::Release);
        Ok(environment)
    }

    /// Commits a transaction. If that fails, the next use reopens the environment.
    pub fn commit(&self, txn: RwTxn<'_>) -> Result<()> {
        let committed = txn.commit();
        if committed.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        Ok(committed?)
    }

    /// Returns whether this process inherited the environment through a fork, and thus cannot use it.
    pub fn inherited(&self) -> bool {
        self.forks != fork::count()
    }

    /// Closes an inherited environment, so that this process can open its own.
    #[allow(unsafe_code)]
    pub fn leave(&self) {
        let Some(environment) = self.current.swap(None) else { return };
        for _ in 1..Arc::strong_count(&environment) {
            // SAFETY: no call runs a caller's code while it has an environment, so the thread that forked had no reference.
            // The references of all other threads were lost with these threads: nobody will ever drop or use them. One
            // reference is left, `environment`, so the count does not reach zero here.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&environment)) };
        }
    }
}

#[allow(unsafe_code)]
fn open(folder: &Path) -> Result<Env<WithoutTls>> {
    // Without thread-local storage: with it, each thread has an entry in the table of readers, and a thread that ends while
    // the environment is closed returns its entry to memory that is gone.
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    let mut map = MAP_BYTES;
    loop {
        options.map_size(map).max_readers(readers_with_room(folder));
        // SAFETY: the folder belongs to the store, only LMDB writes its files, and the store refuses network file systems.
        // NO_SYNC is sound if processes crash, because the kernel has their writes. After an unclean reboot the store
        // discards the catalog, and rebuilds it from the log.
        let opened = unsafe {
            options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD);
            options.open(folder)
        };
        match opened {
            // Another thread of this process is closing it at this moment.
            Err(heed::Error::EnvAlreadyOpened)
                if heed::env_closing_event(folder).is_none_or(|closing| closing.wait_timeout(MAX_CLOSING_TIME)) => {}
            // A smaller map may fit where the address space is limited.
            Err(heed::Error::Io(e)) if TOO_MUCH.contains(&e.raw_os_error().unwrap_or(0)) && map > 1 << 30 => map /= 2,
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// LMDB maps its lock file, which was sparse: on a full disk the process that needed one more page of it got SIGBUS.
    #[test]
    fn the_lock_file_has_room_for_all_readers() {
        let dir = tempfile::tempdir().expect("a folder");
        let environment = Environment::open(dir.path()).expect("opens");
        let found = fs::metadata(dir.path().join(LOCK_FILE)).expect("a lock file");
        assert!(found.blocks() * 512 >= u64::from(MAX_READERS) * READER_ENTRY_BYTES, "{} blocks", found.blocks());
        let mut readers = all_readers(&environment);
        assert!(readers.len() >= MAX_READERS as usize, "{}", readers.len());
        readers.pop();
        drop(environment.read_txn().expect("a reader"));
    }

    /// Begins reads until LMDB refuses one.
    fn all_readers(environment: &Environment) -> Vec<RoTxn<'_, WithoutTls>> {
        let mut readers = Vec::new();
        loop {
            match environment.read_txn() {
                Ok(reader) => readers.push(reader),
                Err(error) => {
                    let error = Error::from(error).to_string();
                    assert!(error.contains("read the store at this moment"), "{error}");
                    return readers;
                }
            }
        }
    }

    fn value(environment: &Environment) -> Option<Vec<u8>> {
        let txn = environment.read_txn().expect("a reader");
        environment.records.get(&txn, b"key").expect("reads").map(<[u8]>::to_vec)
    }

    fn put_value(environment: &Environment, value: &[u8]) {
        let mut txn = environment.write_txn().expect("a transaction");
        environment.records.put(&mut txn, b"key", value).expect("puts");
        txn.commit().expect("commits");
    }

    /// Opens the environment as versions with a table of fewer readers did.
    #[allow(unsafe_code)]
    fn open_as_before(folder: &Path) -> Environment {
        let in_use = Locked::share(File::open(folder).expect("a folder")).expect("locks");
        let lock = folder.join(LOCK_FILE);
        let file = File::options().create(true).truncate(false).write(true).open(lock).expect("a lock file");
        let bytes = LOCK_FILE_HEADER_BYTES + u64::from(MIN_READERS) * READER_ENTRY_BYTES;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).expect("allocates");
        drop(file);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_readers(MIN_READERS);
        // SAFETY: as in `open`.
        let env = unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD).open(folder) }.expect("opens");
        let mut txn = env.write_txn().expect("a transaction");
        let records = env.create_database(&mut txn, None).expect("a database");
        txn.commit().expect("commits");
        Environment { env, number: 0, records, _in_use: in_use, held: None }
    }

    const OTHER_VARIABLE: &str = "TERRACE_ENVIRONMENT_OF_OTHER";

    /// Not a test: another process, which has the environment open until its input ends.
    #[test]
    fn other() {
        let Ok(text) = std::env::var(OTHER_VARIABLE) else { return };
        let (kind, folder) = text.split_once(' ').expect("a kind and a folder");
        let folder = Path::new(folder);
        let environment = match kind {
            "before" => open_as_before(folder),
            _ => Environment::open(folder).expect("opens"),
        };
        let readers = if kind == "reading" { all_readers(&environment) } else { Vec::new() };
        put_value(&environment, kind.as_bytes());
        println!("\nhas it open");
        io::stdin().read_to_end(&mut Vec::new()).expect("waits");
        drop(readers);
    }

    /// Starts such a process, and waits until it has the environment open.
    fn start_other(kind: &str, folder: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "environment::tests::other", "--nocapture"]);
        command.env(OTHER_VARIABLE, format!("{kind} {}", folder.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let output = BufReader::new(child.stdout.as_mut().expect("output"));
        assert!(output.lines().any(|line| line.expect("a line") == "has it open"), "{kind}");
        child
    }

    fn end(mut child: Child) {
        child.stdin.take().expect("input").flush().expect("nothing is written");
        assert!(child.wait().expect("ends").success());
    }

    /// A lock file of an earlier version is shorter. LMDB does not lengthen it while another process has it open, and the opener took
    /// it for one that was cut.
    #[test]
    fn the_environment_is_shared_with_versions_that_had_room_for_fewer_readers() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path();
        let length = || fs::metadata(folder.join(LOCK_FILE)).expect("a lock file").len();
        let before = start_other("before", folder);
        let short = length();
        let environment = Environment::open(folder).expect("opens beside it");
        assert_eq!(value(&environment).as_deref(), Some(&b"before"[..]));
        let readers = all_readers(&environment).len();
        assert!(readers >= MIN_READERS as usize && readers < MAX_READERS as usize, "{readers}");
        end(before);
        drop(environment);
        assert_eq!(length(), short);
        // After it, alone.
        let environment = Environment::open(folder).expect("opens");
        assert!(all_readers(&environment).len() >= MAX_READERS as usize);
        put_value(&environment, b"now");
        let before = start_other("before", folder);
        assert_eq!(value(&environment).as_deref(), Some(&b"before"[..]));
        assert!(all_readers(&environment).len() >= MAX_READERS as usize);
        end(before);
    }

    #[test]
    fn entries_of_killed_readers_are_given_to_others() {
        let dir = tempfile::tempdir().expect("a folder");
        let environment = Environment::open(dir.path()).expect("opens");
        let mut reading = start_other("reading", dir.path());
        let error = environment.read_txn().err().map(|error| Error::from(error).to_string());
        assert!(error.is_some_and(|error| error.contains("read the store at this moment")));
        reading.kill().expect("kills");
        reading.wait().expect("ends");
        assert_eq!(value(&environment).as_deref(), Some(&b"reading"[..]));
    }

    /// Two processes that opened a store at once, and a data file of mostly free pages: the one that had made its lock a shared
    /// one worked on with the file that the other had just replaced. `tests/kill.rs` met it once in 1,000 openings.
    #[test]
    fn a_data_file_that_was_replaced_while_it_was_opened_is_opened_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, data) = (dir.path(), dir.path().join(DATA_FILE));
        drop(Environment::open(folder).expect("makes the files"));
        let replaced = Cell::new(0);
        let share = |lock: &Locked| {
            lock.change(FlockOperation::Unlock)?;
            if replaced.replace(replaced.get() + 1) == 0 {
                fs::copy(&data, folder.join("copy"))?;
                fs::rename(folder.join("copy"), &data)?;
            }
            lock.change(FlockOperation::LockShared)
        };
        let environment = Environment::open_and_share(folder, share).expect("opens");
        assert_eq!(replaced.get(), 2);
        let mut txn = environment.write_txn().expect("a transaction");
        environment.records.put(&mut txn, b"key", b"value").expect("puts");
        txn.commit().expect("commits");
        drop(environment);
        let environment = Environment::open(folder).expect("opens");
        let txn = environment.read_txn().expect("a transaction");
        assert_eq!(environment.records.get(&txn, b"key").expect("reads"), Some(&b"value"[..]));
    }
}
