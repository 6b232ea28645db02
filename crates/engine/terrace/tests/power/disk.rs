//! A disk that loses power: the calls of this program that change files take the place of the C library's (`calls.rs`), and
//! note what is durable. An *image* is what may be found after the power came back: what was durable, and of all that was
//! not, any part, in sectors of 512 bytes and directory entries. LMDB's data are files like others here.

#[path = "calls.rs"]
mod calls;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_int;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_testkit::Random;

const SECTOR_BYTES: usize = 512;
/// Once in this many calls the disk writes some of a file's sectors back by itself: what is lost later is lost to a state
/// between the last sync and now.
const CALLS_PER_WRITE_BACK: u64 = 20;
/// LMDB's table of readers, which only processes share: LMDB writes it again after a restart. A process that closes it gives
/// LMDB's locks up, so it cannot be read here.
const TABLE_OF_READERS: &str = "lock.mdb";

static SIMULATED_DISK: Mutex<Option<Disk>> = Mutex::new(None);

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    File(u64),
    Folder(u64),
}

type Listing = BTreeMap<String, Entry>;

/// The content of the folder below `root`, current and durable.
struct Disk {
    root: PathBuf,
    /// Durable bytes of files, by inode.
    files: HashMap<u64, Vec<u8>>,
    /// Durable entries of folders, by inode: a folder that was made again has none of the old one's.
    folders: HashMap<u64, Listing>,
    calls: u64,
    fail_at: BTreeSet<u64>,
    random: Random,
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
    root: u64,
    /// Entries that are durable, and those of now; none of now where the folder is gone.
    folders: HashMap<u64, (Listing, Option<Listing>)>,
}

fn disk() -> MutexGuard<'static, Option<Disk>> {
    SIMULATED_DISK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on all below `root` is watched; what is there is durable.
pub fn watch(root: &Path, fail_at: BTreeSet<u64>) {
    let mut new = Disk {
        root: root.to_owned(),
        files: HashMap::new(),
        folders: HashMap::new(),
        calls: 0,
        random: Random::new(fail_at.iter().sum()),
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
        } else if self.calls.is_multiple_of(CALLS_PER_WRITE_BACK) {
            self.write_back();
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    /// Makes some sectors of one file durable.
    fn write_back(&mut self) {
        let mut inodes: Vec<u64> = self.files.keys().copied().collect();
        inodes.sort_unstable();
        let Some(&inode) = inodes.get(self.below(inodes.len() as u64) as usize) else { return };
        let Some(current) = find(&self.root, inode).and_then(|path| fs::read(path).ok()) else { return };
        let Some(mut durable) = self.files.remove(&inode) else { return };
        let length = durable.len().min(current.len());
        for at in (0..length).step_by(SECTOR_BYTES) {
            if self.below(2) == 0 {
                let end = length.min(at + SECTOR_BYTES);
                durable[at..end].copy_from_slice(&current[at..end]);
            }
        }
        self.files.insert(inode, durable);
    }

    fn lose(&mut self) {
        let (current, listings) = walk(&self.root);
        let mut folders: HashMap<u64, (Listing, Option<Listing>)> = HashMap::new();
        for (inode, listing) in &self.folders {
            folders.entry(*inode).or_default().0 = listing.clone();
        }
        for (inode, listing) in listings {
            folders.entry(inode).or_default().1 = Some(listing);
        }
        self.losses.push(Loss {
            progress: self.progress,
            call: self.calls,
            durable: self.files.clone(),
            current,
            root: inode(&self.root),
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
            self.folders.insert(metadata.ino(), listing(&path));
        } else if let Ok(bytes) = fs::read(&link) {
            self.files.insert(metadata.ino(), bytes);
        }
    }
}

/// All files' bytes and all folders' entries, but for LMDB's table of readers.
fn walk(root: &Path) -> (HashMap<u64, Vec<u8>>, HashMap<u64, Listing>) {
    let (mut files, mut folders) = (HashMap::new(), HashMap::new());
    let mut left = vec![(inode(root), root.to_owned())];
    while let Some((number, folder)) = left.pop() {
        let entries = listing(&folder);
        for (name, entry) in &entries {
            let path = folder.join(name);
            match entry {
                Entry::Folder(number) => left.push((*number, path)),
                Entry::File(inode) => {
                    files.insert(*inode, fs::read(path).unwrap_or_default());
                }
            }
        }
        folders.insert(number, entries);
    }
    (files, folders)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.ino())
}

/// The file of this number below a folder.
fn find(folder: &Path, inode: u64) -> Option<PathBuf> {
    listing(folder).into_iter().find_map(|(name, entry)| match entry {
        Entry::Folder(_) => find(&folder.join(name), inode),
        Entry::File(number) => (number == inode).then(|| folder.join(name)),
    })
}

fn listing(folder: &Path) -> Listing {
    let Ok(entries) = fs::read_dir(folder) else { return Listing::new() };
    let entry = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let metadata = entry.metadata().ok()?;
        let kind = if metadata.is_dir() { Entry::Folder(metadata.ino()) } else { Entry::File(metadata.ino()) };
        (name != TABLE_OF_READERS).then_some((name, kind))
    };
    entries.flatten().filter_map(entry).collect()
}

impl Loss {
    /// Writes into `root`, which is empty, what may be found there when the power is back.
    pub fn restore(&self, root: &Path, random: &mut impl FnMut(u64) -> u64) {
        self.folder(self.root, root, &mut HashMap::new(), random);
    }

    /// `files` are those that have a name already.
    fn folder(&self, number: u64, path: &Path, files: &mut HashMap<u64, PathBuf>, random: &mut impl FnMut(u64) -> u64) {
        fs::create_dir_all(path).expect("a folder");
        let Some((durable, current)) = self.folders.get(&number) else { return };
        // A folder that is gone was emptied first; here all that was in it may be there still.
        let current = current.as_ref().unwrap_or(durable);
        let names: BTreeSet<&String> = durable.keys().chain(current.keys()).collect();
        for name in names {
            let (old, new) = (durable.get(name), current.get(name));
            let found = if old == new || random(2) == 0 { new } else { old };
            match found {
                None => {}
                Some(Entry::Folder(number)) => self.folder(*number, &path.join(name), files, random),
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

    /// The bytes of a file after a power cut: each sector that was not durable may be new or old, and the end may be anywhere
    /// between the old and the new one.
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
        for (index, sector) in found.chunks_mut(SECTOR_BYTES).enumerate() {
            let new = match luck {
                0 => false,
                1 => true,
                _ => random(2) == 0,
            };
            let from = if new { current.as_slice() } else { durable };
            let at = (index * SECTOR_BYTES).min(from.len());
            let have = sector.len().min(from.len() - at);
            sector[..have].copy_from_slice(&from[at..at + have]);
        }
        found
    }
}
