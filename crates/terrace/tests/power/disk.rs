//! A disk that loses power: this program's `fsync`, `fdatasync`, `pwrite` and `rename` take the place of the C library's,
//! and note what is durable. An *image* is what may be found after the power came back: what was durable, and of all
//! that was not, any part, in sectors of 512 bytes and directory entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SECTOR: usize = 512;

static DISK: Mutex<Option<Disk>> = Mutex::new(None);

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    File(u64),
    Folder,
}

type Listing = BTreeMap<String, Entry>;

/// What the folder below `root` holds, and what of it is durable.
struct Disk {
    root: PathBuf,
    /// Durable bytes of files, by inode.
    files: HashMap<u64, Vec<u8>>,
    /// Durable entries of folders.
    folders: HashMap<PathBuf, Listing>,
    calls: u64,
    fail_at: BTreeSet<u64>,
    progress: Progress,
    losses: Vec<Loss>,
}

/// How far the workload is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Operations that were begun.
    pub begun: usize,
    /// Operations that have returned.
    pub returned: usize,
    /// Those up to the last sync that has returned: they must survive.
    pub synced: usize,
}

/// The disk at the moment that the power went.
pub struct Loss {
    pub progress: Progress,
    pub call: u64,
    durable: HashMap<u64, Vec<u8>>,
    current: HashMap<u64, Vec<u8>>,
    folders: HashMap<PathBuf, (Listing, Listing)>,
}

fn disk() -> MutexGuard<'static, Option<Disk>> {
    DISK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on all below `root` is watched; what is there is durable.
pub fn watch(root: &Path, fail_at: BTreeSet<u64>) {
    let mut new = Disk {
        root: root.to_owned(),
        files: HashMap::new(),
        folders: HashMap::new(),
        calls: 0,
        fail_at,
        progress: Progress::default(),
        losses: Vec::new(),
    };
    let (files, folders) = walk(root);
    new.files = files;
    new.folders = folders;
    *disk() = Some(new);
}

/// Notes how far the workload is.
pub fn progress(change: impl FnOnce(&mut Progress)) {
    if let Some(disk) = disk().as_mut() {
        change(&mut disk.progress);
    }
}

/// The losses of power since [`watch`], and one more at the very end.
pub fn end() -> Vec<Loss> {
    let mut guard = disk();
    if let Some(disk) = guard.as_mut() {
        disk.lose();
    }
    guard.take().map(|disk| disk.losses).unwrap_or_default()
}

impl Disk {
    fn call(&mut self) {
        self.calls += 1;
        if self.fail_at.contains(&self.calls) {
            self.lose();
        }
    }

    fn lose(&mut self) {
        let (current, listings) = walk(&self.root);
        let mut folders: HashMap<PathBuf, (Listing, Listing)> = HashMap::new();
        for (path, listing) in &self.folders {
            folders.entry(path.clone()).or_default().0 = listing.clone();
        }
        for (path, listing) in listings {
            folders.entry(path).or_default().1 = listing;
        }
        self.losses.push(Loss {
            progress: self.progress,
            call: self.calls,
            durable: self.files.clone(),
            current,
            folders,
        });
    }

    fn synced(&mut self, fd: c_int) {
        let link = format!("/proc/self/fd/{fd}");
        let Ok(path) = fs::read_link(&link) else { return };
        if !path.starts_with(&self.root) {
            return;
        }
        let Ok(metadata) = fs::metadata(&link) else { return };
        if metadata.is_dir() {
            self.folders.insert(path.clone(), listing(&path));
        } else if let Ok(bytes) = fs::read(&link) {
            self.files.insert(metadata.ino(), bytes);
        }
    }
}

/// All files' bytes and all folders' entries, but for what LMDB keeps.
fn walk(root: &Path) -> (HashMap<u64, Vec<u8>>, HashMap<PathBuf, Listing>) {
    let (mut files, mut folders) = (HashMap::new(), HashMap::new());
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        let entries = listing(&folder);
        for (name, entry) in &entries {
            let path = folder.join(name);
            match entry {
                Entry::Folder => left.push(path),
                Entry::File(inode) => {
                    files.insert(*inode, fs::read(path).unwrap_or_default());
                }
            }
        }
        folders.insert(folder, entries);
    }
    (files, folders)
}

fn listing(folder: &Path) -> Listing {
    let Ok(entries) = fs::read_dir(folder) else { return Listing::new() };
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let metadata = entry.metadata().ok()?;
        let kind = if metadata.is_dir() { Entry::Folder } else { Entry::File(metadata.ino()) };
        (name != "catalog").then_some((name, kind))
    };
    entries.flatten().filter_map(entry).collect()
}

impl Loss {
    /// Writes into `root`, which is empty, what may be found there when the power is back.
    pub fn restore(&self, root: &Path, random: &mut impl FnMut(u64) -> u64) {
        self.folder(root, &mut HashMap::new(), random);
    }

    /// `files` are those that have a name already.
    fn folder(&self, path: &Path, files: &mut HashMap<u64, PathBuf>, random: &mut impl FnMut(u64) -> u64) {
        fs::create_dir_all(path).expect("a folder");
        let Some((durable, current)) = self.folders.get(path) else { return };
        let names: BTreeSet<&String> = durable.keys().chain(current.keys()).collect();
        for name in names {
            let (old, new) = (durable.get(name), current.get(name));
            let found = if old == new || random(2) == 0 { new } else { old };
            match found {
                None => {}
                Some(Entry::Folder) => self.folder(&path.join(name), files, random),
                Some(Entry::File(inode)) => match files.get(inode) {
                    Some(first) => fs::hard_link(first, path.join(name)).expect("a further name"),
                    None => {
                        fs::write(path.join(name), self.bytes(*inode, random)).expect("a file");
                        files.insert(*inode, path.join(name));
                    }
                },
            }
        }
    }

    /// What is found of a file: any of the sectors that were not durable may be new or old, and its end anywhere between.
    fn bytes(&self, inode: u64, random: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
        let durable = self.durable.get(&inode).map_or(&[][..], Vec::as_slice);
        let Some(current) = self.current.get(&inode) else { return durable.to_vec() };
        let (short, long) = (durable.len().min(current.len()), durable.len().max(current.len()));
        let length = match random(3) {
            0 => durable.len(),
            1 => current.len(),
            _ => short + random((long - short) as u64 + 1) as usize,
        };
        let luck = random(4);
        let mut found = vec![0; length];
        for (index, sector) in found.chunks_mut(SECTOR).enumerate() {
            let new = match luck {
                0 => false,
                1 => true,
                _ => random(2) == 0,
            };
            let from = if new { current.as_slice() } else { durable };
            let at = (index * SECTOR).min(from.len());
            let have = sector.len().min(from.len() - at);
            sector[..have].copy_from_slice(&from[at..at + have]);
        }
        found
    }
}

/// Runs a system call; the disk looks at it before or after. Calls are watched one at a time.
fn watched(call: impl FnOnce() -> i64, after: impl FnOnce(&mut Disk)) -> i64 {
    let mut guard = disk();
    if let Some(disk) = guard.as_mut() {
        disk.call();
    }
    let result = call();
    if let Some(disk) = guard.as_mut()
        && result >= 0
    {
        after(disk);
    }
    result
}

// SAFETY of all of these: they do what the C library's functions do, by the same system calls with the same arguments.

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    watched(|| unsafe { libc::syscall(libc::SYS_fsync, fd) }, |disk| disk.synced(fd)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    watched(|| unsafe { libc::syscall(libc::SYS_fdatasync, fd) }, |disk| disk.synced(fd)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, length: usize, offset: i64) -> isize {
    watched(|| unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, length, offset) }, |_| {}) as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, parts: *const libc::iovec, count: c_int, offset: i64) -> isize {
    watched(|| unsafe { libc::syscall(libc::SYS_pwritev, fd, parts, count, offset, 0) }, |_| {}) as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let here = libc::AT_FDCWD;
    watched(|| unsafe { libc::syscall(libc::SYS_renameat, here, from, here, to) }, |_| {}) as c_int
}
