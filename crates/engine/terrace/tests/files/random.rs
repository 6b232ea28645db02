//! Random operations on objects as files and on a directory of the system's: each result is compared with the other's.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use terrace::files::{File, FileError, FileResult, Setting};
use terrace::{Files, Kind, Store};

use crate::{BLOCK_BYTES, ROOT_OWNER, store};

const MAX_LINK_BYTES: usize = 8;
const SOME_PATHS: [&str; 10] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d-e", "l", "a/b"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize, bool),
    Open(usize),
    Close(usize),
    Write(usize, u64, usize),
    Append(usize, usize),
    Read(usize, u64, usize),
    SetLength(usize, u64),
    Clear(usize, u64, u64),
    Extend(usize, u64),
    Flush(usize),
    Sync(usize),
    Chmod(usize, u32),
    Touch(usize, i64),
    Remove(usize),
    MakeDirectory(usize),
    RemoveDirectory(usize),
    /// Makes `l` a link, which is never the directory of anything: the system would follow it.
    Link(usize),
    Rename(usize, usize, bool),
    List(usize),
    Stat(usize),
    /// All handles are closed, and the store is opened again.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..SOME_PATHS.len();
    let handle = 0..8usize;
    let length = prop_oneof![1..300usize, 1..20_000usize, BLOCK_BYTES - 1..BLOCK_BYTES * 3];
    let offset = prop_oneof![0..500u64, 0..200_000u64];
    prop_oneof![
        3 => (path.clone(), any::<bool>()).prop_map(|(p, x)| Step::Create(p, x)),
        3 => path.clone().prop_map(Step::Open),
        1 => handle.clone().prop_map(Step::Close),
        8 => (handle.clone(), offset.clone(), length.clone()).prop_map(|(h, o, l)| Step::Write(h, o, l)),
        2 => (handle.clone(), length.clone()).prop_map(|(h, l)| Step::Append(h, l)),
        6 => (handle.clone(), offset.clone(), length).prop_map(|(h, o, l)| Step::Read(h, o, l)),
        2 => (handle.clone(), offset.clone()).prop_map(|(h, l)| Step::SetLength(h, l)),
        2 => (handle.clone(), offset.clone(), offset.clone()).prop_map(|(h, o, l)| Step::Clear(h, o, l)),
        1 => (handle.clone(), offset).prop_map(|(h, l)| Step::Extend(h, l)),
        2 => handle.clone().prop_map(Step::Flush),
        1 => handle.prop_map(Step::Sync),
        1 => (path.clone(), 0..0o777u32).prop_map(|(p, m)| Step::Chmod(p, m | 0o600)),
        1 => (path.clone(), 1..1_000_000_000i64).prop_map(|(p, t)| Step::Touch(p, t)),
        2 => path.clone().prop_map(Step::Remove),
        3 => path.clone().prop_map(Step::MakeDirectory),
        1 => path.clone().prop_map(Step::RemoveDirectory),
        1 => path.clone().prop_map(Step::Link),
        4 => (path.clone(), path.clone(), any::<bool>()).prop_map(|(p, q, r)| Step::Rename(p, q, r)),
        2 => path.clone().prop_map(Step::List),
        3 => path.prop_map(Step::Stat),
        1 => Just(Step::Again),
    ]
}

/// A system's error number, or that all went well.
fn number<T>(result: &FileResult<T>) -> i32 {
    result.as_ref().err().map_or(0, FileError::errno)
}

fn system<T>(result: &io::Result<T>) -> i32 {
    result.as_ref().err().map_or(0, |e| e.raw_os_error().unwrap())
}

struct Both {
    files: Files,
    root: PathBuf,
    open: Vec<Option<(File, fs::File)>>,
    written: u64,
}

impl Both {
    fn path(&self, path: usize) -> (&'static [u8], PathBuf) {
        (SOME_PATHS[path].as_bytes(), self.root.join(SOME_PATHS[path]))
    }

    fn keep(&mut self, ours: FileResult<File>, theirs: io::Result<fs::File>) {
        assert_eq!(number(&ours), system(&theirs));
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            let free = self.open.iter().position(Option::is_none).unwrap_or(0);
            self.open[free] = Some((ours, theirs));
        }
    }

    fn noise(&mut self, length: usize) -> Vec<u8> {
        self.written += 1;
        let seed = self.written;
        (0..length as u64).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn with(&mut self, handle: usize, run: impl FnOnce(&File, &fs::File)) {
        if let Some((ours, theirs)) = &self.open[handle] {
            run(ours, theirs);
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Create(path, exclusive) => {
                let (key, at) = self.path(path);
                // A link is followed by the system, not by `Files`.
                if fs::symlink_metadata(&at).is_ok_and(|m| m.is_symlink()) {
                    return;
                }
                let ours = self.files.create(key, 0o640, ROOT_OWNER, exclusive);
                let mut how = OpenOptions::new();
                how.read(true).write(true);
                let theirs = if exclusive { how.create_new(true) } else { how.create(true) }.open(&at);
                if theirs.is_ok() && ours.is_ok() {
                    fs::set_permissions(&at, fs::Permissions::from_mode(0o640)).unwrap();
                    let setting = Setting { mode: Some(0o640), ..Setting::default() };
                    self.files.set(key, &setting).unwrap();
                }
                self.keep(ours, theirs);
            }
            Step::Open(path) => {
                let (key, at) = self.path(path);
                if !fs::symlink_metadata(&at).is_ok_and(|m| m.is_symlink()) {
                    let theirs = OpenOptions::new().read(true).write(true).open(&at);
                    self.keep(self.files.open(key), theirs);
                }
            }
            Step::Close(handle) => self.open[handle] = None,
            Step::Write(handle, offset, length) => {
                let bytes = self.noise(length);
                self.with(handle, |ours, theirs| {
                    if offset.is_multiple_of(2) {
                        ours.write_at(offset, &bytes).unwrap();
                    } else {
                        ours.write_behind(offset, &bytes, Result::unwrap);
                    }
                    theirs.write_all_at(&bytes, offset).unwrap();
                });
            }
            Step::Append(handle, length) => {
                let bytes = self.noise(length);
                self.with(handle, |ours, theirs| {
                    let end = theirs.metadata().unwrap().len();
                    assert_eq!(ours.append(&bytes).unwrap(), end);
                    theirs.write_all_at(&bytes, end).unwrap();
                });
            }
            Step::Read(handle, offset, length) => self.with(handle, |ours, theirs| {
                let (mut a, mut b) = (vec![1; length], vec![2; length]);
                let length = theirs.read_at(&mut b, offset).unwrap();
                ours.read_to(offset, &mut a, |read| assert!(read.unwrap() == &b[..length]));
                // Again, from the chunk that the handle holds by then.
                for _ in 0..2 {
                    a.fill(1);
                    assert!(ours.read_at(offset, &mut a).unwrap() == length && a[..length] == b[..length]);
                }
            }),
            Step::SetLength(handle, length) => self.with(handle, |ours, theirs| {
                ours.set_len(length).unwrap();
                theirs.set_len(length).unwrap();
            }),
            Step::Clear(handle, offset, length) => self.with(handle, |ours, theirs| {
                let end = theirs.metadata().unwrap().len().min(offset + length);
                theirs.write_all_at(&vec![0; end.saturating_sub(offset) as usize], offset).unwrap();
                ours.clear(offset, length).unwrap();
                if offset < end {
                    let data = ours.next_data(offset).unwrap();
                    assert!(data.is_none_or(|data| data >= end));
                    assert_eq!(ours.next_hole(offset).unwrap(), Some(offset));
                }
            }),
            Step::Extend(handle, length) => self.with(handle, |ours, theirs| {
                ours.extend(length).unwrap();
                theirs.set_len(theirs.metadata().unwrap().len().max(length)).unwrap();
            }),
            Step::Flush(handle) => self.with(handle, |ours, _| ours.flush().unwrap()),
            Step::Sync(handle) => self.with(handle, |ours, _| ours.sync().unwrap()),
            Step::Chmod(path, mode) => {
                let (key, at) = self.path(path);
                if !fs::symlink_metadata(&at).is_ok_and(|m| m.is_symlink()) {
                    let ours = self.files.set(key, &Setting { mode: Some(mode), ..Setting::default() });
                    assert_eq!(number(&ours), system(&fs::set_permissions(&at, fs::Permissions::from_mode(mode))));
                }
            }
            Step::Touch(path, time) => {
                let (key, at) = self.path(path);
                if let Ok(file) = fs::File::open(&at)
                    && fs::symlink_metadata(&at).is_ok_and(|m| m.is_file())
                {
                    let to = std::time::UNIX_EPOCH + std::time::Duration::from_secs(time as u64);
                    file.set_times(fs::FileTimes::new().set_modified(to)).unwrap();
                    let setting = Setting { modified: Some(time * 1_000_000_000), ..Setting::default() };
                    let stat = self.files.set(key, &setting).unwrap();
                    assert_eq!(stat.modified, time * 1_000_000_000);
                    assert_eq!(self.files.stat(key).unwrap(), stat);
                }
            }
            Step::Remove(path) => {
                let (key, at) = self.path(path);
                assert_eq!(number(&self.files.remove(key)), system(&fs::remove_file(at)));
            }
            Step::MakeDirectory(path) => {
                let (key, at) = self.path(path);
                let ours = self.files.make_directory(key, 0o755, ROOT_OWNER);
                assert_eq!(number(&ours), system(&fs::create_dir(at)));
            }
            Step::RemoveDirectory(path) => {
                let (key, at) = self.path(path);
                assert_eq!(number(&self.files.remove_directory(key)), system(&fs::remove_dir(at)));
            }
            Step::Link(to) => {
                let (key, at) = self.path(MAX_LINK_BYTES);
                let ours = self.files.make_link(key, SOME_PATHS[to].as_bytes(), ROOT_OWNER);
                assert_eq!(number(&ours), system(&std::os::unix::fs::symlink(SOME_PATHS[to], at)));
            }
            Step::Rename(from, to, replace) => {
                let ((key, at), (new_key, new)) = (self.path(from), self.path(to));
                if from == MAX_LINK_BYTES {
                    return;
                }
                if replace || fs::symlink_metadata(&new).is_err() {
                    let ours = self.files.rename(key, new_key, replace);
                    assert_eq!(number(&ours), system(&fs::rename(at, new)), "{key:?} {new_key:?} {ours:?}");
                } else if fs::symlink_metadata(&at).is_ok() {
                    assert_eq!(number(&self.files.rename(key, new_key, false)), libc::EEXIST);
                }
            }
            Step::List(path) => self.list(path),
            Step::Stat(path) => self.stat(path),
            Step::Again => {
                self.open.iter_mut().for_each(|open| *open = None);
                self.files = Files::new(&self.files.store().clone()).unwrap();
            }
        }
    }

    fn list(&self, path: usize) {
        let (key, at) = self.path(path);
        if fs::symlink_metadata(&at).is_ok_and(|m| m.is_symlink()) {
            return;
        }
        let (mut ours, mut from) = (Vec::new(), Vec::new());
        loop {
            match self.files.list(key, &from, 2) {
                Ok((page, next)) => {
                    ours.extend(page.into_iter().map(|entry| entry.name));
                    match next {
                        Some(next) => from = next,
                        None => break,
                    }
                }
                Err(error) => return assert_eq!(error.errno(), system(&fs::read_dir(at))),
            }
        }
        let theirs = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name().as_bytes().to_vec());
        let mut theirs: Vec<_> = theirs.collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs);
    }

    fn stat(&self, path: usize) {
        let (key, at) = self.path(path);
        let (ours, theirs) = (self.files.stat(key), fs::symlink_metadata(&at));
        assert_eq!(number(&ours), system(&theirs), "{:?}", SOME_PATHS[path]);
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
        match ours.kind {
            Kind::Directory => assert!(theirs.is_dir()),
            Kind::Symlink => {
                assert_eq!(self.files.read_link(key).unwrap(), fs::read_link(&at).unwrap().as_os_str().as_bytes())
            }
            Kind::File => {
                assert!(theirs.is_file());
                assert_eq!(ours.length, theirs.len());
            }
        }
        assert!(ours.kind == Kind::Symlink || ours.mode == theirs.permissions().mode() & 0o7777);
    }

    /// All files' bytes, as the store has them.
    fn all(&self) -> BTreeMap<String, Vec<u8>> {
        let objects = self.files.store().list(b"", None, usize::MAX).unwrap();
        let files = objects.into_iter().filter(|(_, object)| object.attributes.kind == Kind::File);
        files.map(|(key, _)| (String::from_utf8(key.clone()).unwrap(), self.files.store().get(&key).unwrap())).collect()
    }
}

fn plain(root: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            plain(root, &path, into);
        } else if kind.is_file() {
            into.insert(path.strip_prefix(root).unwrap().display().to_string(), fs::read(&path).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn files_are_as_those_of_the_system(steps in prop::collection::vec(step(), 1..120)) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("plain");
        fs::create_dir(&root).unwrap();
        // Directories' modes are to be the same, whatever the caller's mask.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let files = Files::new(&store(dir.path())).unwrap();
        let mut both = Both { files, root, open: (0..8).map(|_| None).collect(), written: 0 };
        for step in &steps {
            both.take(step);
        }
        for path in 0..SOME_PATHS.len() {
            both.stat(path);
            both.list(path);
        }
        both.files.flush().unwrap();
        both.open.clear();
        let mut theirs = BTreeMap::new();
        plain(&both.root, &both.root, &mut theirs);
        prop_assert!(both.all() == theirs, "what is left differs: {:?} {:?}", both.all().keys(), theirs.keys());
        // A rebuilt catalog says the same.
        let Both { files, root, .. } = both;
        drop(files);
        let files = Files::new(&Store::rebuild(&dir.path().join("store")).unwrap()).unwrap();
        let both = Both { files, root, open: Vec::new(), written: 0 };
        prop_assert!(both.all() == theirs);
        (0..SOME_PATHS.len()).for_each(|path| { both.stat(path); both.list(path); });
    }
}

/// Sequences of operations; TERRACE_FILES says how many.
fn cases() -> u32 {
    std::env::var("TERRACE_FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}
