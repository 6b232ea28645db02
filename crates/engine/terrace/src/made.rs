//! Creates files and folders for other programs, such that they are complete or do not exist, even if the process or the
//! machine fails.
//!
//! They are created under a hidden name beside their place. The next call for the same place uses this name again, so that
//! leftovers of an interrupted call do no harm and are not kept. A lock tells a part in use from a leftover.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, fstatvfs, renameat_with, syncfs};
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// The parts that this process is writing.
static UNFINISHED_PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The number of bytes of a name that are repeated in the name of its part, which must not be too long for a name either. The name of a
/// longer one's part also has a hash of it.
const KEPT_NAME_LENGTH: usize = 200;

/// The end of the name of a part, which begins with a dot.
const PART_SUFFIX: &str = ".terrace-part";

/// Returns whether a file's name is one under which an unfinished file gathers. No file is made under such a name: the next one whose
/// part has this name would take its place.
pub fn is_part_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PART_SUFFIX.as_bytes())
}

/// Removes the parts that this process is writing, and prevents it from creating or finishing others. For signal handlers
/// that end the process.
pub fn remove_unfinished_parts() {
    let parts = UNFINISHED_PARTS.lock();
    for part in &*parts {
        // A part that cannot be removed is removed by the next call for the same place.
        let _ = fs::remove_file(part).or_else(|_| fs::remove_dir_all(part));
    }
    // Held until the process ends.
    std::mem::forget(parts);
}

/// A file that is being written. If it is dropped before it is finished, it is removed.
pub struct NewFile {
    file: File,
    /// None if the place is not a regular file, such as a pipe. Then bytes are written to it directly.
    part: Option<Part>,
}

/// A folder that is being written. If it is dropped before it is finished, it is removed.
pub struct NewFolder(Part);

/// A file that is being written beside its final place.
struct Part {
    path: PathBuf,
    place: PathBuf,
    replaces: bool,
    /// Open and locked, so that other processes see that the part is in use.
    lock: File,
}

impl NewFile {
    /// Creates a file of `length` bytes. Finishing it replaces the file at its place. Pipes and devices are written to
    /// directly.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if there is no room for it, [`io::ErrorKind::ResourceBusy`] if another process is
    /// writing it.
    pub fn create(place: &Path, length: u64) -> io::Result<NewFile> {
        match fs::metadata(place) {
            Ok(there) if there.is_dir() => {
                Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory; name a file"))
            }
            Ok(there) if !there.is_file() => {
                Ok(NewFile { file: OpenOptions::new().write(true).open(place)?, part: None })
            }
            // If the place is a link, the file to which it leads is replaced.
            Ok(there) => NewFile::begin(fs::canonicalize(place)?, true, length, Some(there.permissions())),
            Err(_) => NewFile::begin(place.to_owned(), true, length, None),
        }
    }

    /// Creates a file of `length` bytes at a free place.
    ///
    /// # Errors
    /// As [`NewFile::create`]; [`io::ErrorKind::AlreadyExists`], also from [`NewFile::finish`], if the place is not free.
    pub fn create_new(place: &Path, length: u64) -> io::Result<NewFile> {
        check_free(place)?;
        NewFile::begin(place.to_owned(), false, length, None)
    }

    /// Creates a file of `length` bytes. Finishing it replaces what is at its place, also a link.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn replace(place: &Path, length: u64) -> io::Result<NewFile> {
        NewFile::begin(place.to_owned(), true, length, None)
    }

    /// Returns the file under its hidden name, for a writer that leaves holes.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn begin(place: PathBuf, replaces: bool, length: u64, permissions: Option<Permissions>) -> io::Result<NewFile> {
        let open = |path: &Path| {
            // So that no other user can make the name lead elsewhere.
            let flags = OFlags::NOFOLLOW.bits() as i32;
            OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
        };
        let part = Part::begin(place, replaces, open)?;
        let file = part.lock.try_clone()?;
        file.set_len(0)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        check_room(&file, length)?;
        Ok(NewFile { file, part: Some(part) })
    }

    /// Moves the file to its place.
    pub fn finish(self) -> io::Result<()> {
        if self.part.is_some() {
            // Synced before it has its name, because a power cut could leave the name without the bytes.
            self.file.sync_all()?;
        }
        self.finish_synced()
    }

    /// Moves the file, which the caller has synced, to its place.
    pub fn finish_synced(self) -> io::Result<()> {
        self.part.as_ref().map_or(Ok(()), Part::move_to_place)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFolder {
    /// Creates a folder at a free place.
    ///
    /// # Errors
    /// As [`NewFile::create_new`].
    pub fn create_new(place: &Path) -> io::Result<NewFolder> {
        check_free(place)?;
        let open = |path: &Path| {
            match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        };
        let part = Part::begin(place.to_owned(), false, open)?;
        for left in fs::read_dir(&part.path)? {
            let left = left?;
            if left.file_type()?.is_dir() { fs::remove_dir_all(left.path()) } else { fs::remove_file(left.path()) }?;
        }
        Ok(NewFolder(part))
    }

    /// Returns the current path of the folder, in which files can be created.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the number of free bytes there, if it is known.
    pub fn room(&self) -> Option<u64> {
        room(&self.0.lock)
    }

    /// Moves the folder to its place.
    pub fn finish(self) -> io::Result<()> {
        // Synced before it has its name, as a file is. One call syncs all of its files.
        syncfs(&self.0.lock)?;
        self.0.move_to_place()
    }
}

/// Returns the name of the part of a file or folder with this name. Different names have different parts.
fn part_name(name: &OsStr) -> OsString {
    let name = name.as_bytes();
    let part = match name.get(KEPT_NAME_LENGTH) {
        None => [b".", name, PART_SUFFIX.as_bytes()].concat(),
        Some(_) => {
            let hash = format!(".{:016x}{PART_SUFFIX}", xxh3_64(name));
            [b".", start_of(name), hash.as_bytes()].concat()
        }
    };
    OsString::from_vec(part)
}

/// Returns the first bytes of a long name. They end between two characters if the name is UTF-8, which some file systems ask for.
fn start_of(name: &[u8]) -> &[u8] {
    let is_inside = |at: &usize| name.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    // A character has at most four bytes.
    let ends = KEPT_NAME_LENGTH - 3..=KEPT_NAME_LENGTH;
    let end = ends.rev().find(|at| !is_inside(at)).unwrap_or(KEPT_NAME_LENGTH);
    name.get(..end).unwrap_or(name)
}

/// Names the path of a part in an error that is about what is there: the user knows only the path that it will have.
fn name_obstacle(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        // ELOOP, which has no stable kind, says that it is a symbolic link.
        kind if kind == io::ErrorKind::IsADirectory
            || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) =>
        {
            io::Error::new(kind, format!("{} is in the way ({error}); remove it", path.display()))
        }
        _ => error,
    }
}

impl Part {
    fn begin(place: PathBuf, replaces: bool, open: impl Fn(&Path) -> io::Result<File>) -> io::Result<Part> {
        let name = place
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name; name a file"))?;
        if is_part_name(name.as_bytes()) {
            let why = "a file with such a name is an unfinished one of Terrace's, and the next one takes its place; use another name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let path = place.with_file_name(part_name(name));
        // Registered before it exists, so that a signal handler finds it; exactly once.
        let mut unfinished = UNFINISHED_PARTS.lock();
        let busy = || {
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process is writing it; wait for that, or name another path",
            )
        };
        if unfinished.contains(&path) {
            return Err(busy());
        }
        loop {
            let lock = open(&path).map_err(|error| name_obstacle(&path, error))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy()),
                // On a file system without locks, two processes that create the same file are not kept apart.
                Err(TryLockError::Error(error)) => tracing::debug!("{} cannot be locked: {error}", path.display()),
            }
            // The previous holder of the lock may have moved the part to its place. Then it is no leftover.
            let (own, there) = (lock.metadata()?, fs::symlink_metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                unfinished.push(path.clone());
                return Ok(Part { path, place, replaces, lock });
            }
        }
    }

    fn move_to_place(&self) -> io::Result<()> {
        // Held so that `remove_unfinished_parts` does not remove a part that has just been finished.
        let _unfinished = UNFINISHED_PARTS.lock();
        if self.replaces {
            return fs::rename(&self.path, &self.place);
        }
        match renameat_with(CWD, &self.path, CWD, &self.place, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                // This file system cannot refuse to replace a file, so the place is checked here.
                check_free(&self.place)?;
                fs::rename(&self.path, &self.place)
            }
            done => Ok(done?),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut unfinished = UNFINISHED_PARTS.lock();
        unfinished.retain(|path| *path != self.path);
        // A finished part has another name by now. A part that cannot be removed is removed by the next call for the same
        // place.
        let _ = fs::remove_file(&self.path).or_else(|_| fs::remove_dir_all(&self.path));
    }
}

fn check_free(place: &Path) -> io::Result<()> {
    match fs::symlink_metadata(place) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists already; name another path")),
        Err(_) => Ok(()),
    }
}

fn check_room(file: &File, length: u64) -> io::Result<()> {
    match room(file) {
        Some(room) if room < length => Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("it takes {length} bytes and {room} are free there; free some, or name another path"),
        )),
        _ => Ok(()),
    }
}

/// Returns the number of free bytes on a file's file system. None if it does not tell.
fn room(file: &File) -> Option<u64> {
    let room = fstatvfs(file).ok()?;
    // A file system without a limit reports no blocks at all.
    (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_once_it_is_finished_and_what_was_left_is_not_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a");
        fs::write(dir.path().join(".a.terrace-part"), b"left by a kill, and longer").unwrap();
        let mut file = NewFile::create_new(&place, 3).unwrap();
        file.write_all(b"one").unwrap();
        assert_eq!(names(dir.path()), [".a.terrace-part"]);
        let busy = NewFile::create_new(&place, 3).err().unwrap();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        file.finish().unwrap();
        assert_eq!((names(dir.path()), fs::read(&place).unwrap()), (vec!["a".to_owned()], b"one".to_vec()));
        assert_eq!(NewFile::create_new(&place, 3).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        // Replaced whole, or not at all; with the rights that it had.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&place, Permissions::from_mode(0o640)).unwrap();
        drop(NewFile::create(&place, 3).unwrap());
        assert_eq!(fs::read(&place).unwrap(), b"one");
        let mut file = NewFile::create(&place, 3).unwrap();
        file.write_all(b"two").unwrap();
        file.finish().unwrap();
        assert_eq!((names(dir.path()), fs::read(&place).unwrap()), (vec!["a".to_owned()], b"two".to_vec()));
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn no_file_is_made_where_a_part_of_another_gathers() {
        let dir = tempfile::tempdir().unwrap();
        let refused = NewFile::replace(&dir.path().join(".a.terrace-part"), 3).err().unwrap();
        assert_eq!((refused.kind(), names(dir.path())), (io::ErrorKind::InvalidInput, vec![]));
    }

    /// One of two files with long names that began alike could not be made, nor one of two whose names are not UTF-8.
    #[test]
    fn files_with_names_that_begin_alike_are_made_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let long = |end: &str| OsString::from("n".repeat(240) + end);
        let wide = |end: &str| OsString::from("\u{20ac}".repeat(80) + end);
        let odd = |byte: u8| OsString::from_vec(vec![byte]);
        let all = [long("1"), long("2"), wide("1"), wide("2"), odd(0xFE), odd(0xFF)];
        let files: Vec<NewFile> =
            all.iter().map(|name| NewFile::create_new(&dir.path().join(name), 0).unwrap()).collect();
        let parts = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(parts.filter(|part| is_part_name(part.as_bytes())).count(), all.len());
        files.into_iter().for_each(|file| file.finish().unwrap());
        assert!(all.iter().all(|name| dir.path().join(name).exists()));
        assert!(
            part_name(&wide("1")).to_str().is_some_and(|part| part.len() <= 255),
            "a file system may ask for UTF-8"
        );
    }

    #[test]
    fn what_has_come_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a");
        let file = NewFile::create_new(&place, 0).unwrap();
        fs::write(&place, b"another's").unwrap();
        assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((names(dir.path()), fs::read(&place).unwrap()), (vec!["a".to_owned()], b"another's".to_vec()));
    }

    #[test]
    fn a_folder_is_there_once_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a");
        fs::create_dir_all(dir.path().join(".a.terrace-part/left/by")).unwrap();
        fs::write(dir.path().join(".a.terrace-part/left/by/a kill"), b"x").unwrap();
        let folder = NewFolder::create_new(&place).unwrap();
        fs::write(folder.path().join("one"), b"1").unwrap();
        assert!(!place.exists());
        folder.finish().unwrap();
        assert_eq!((names(dir.path()), names(&place)), (vec!["a".to_owned()], vec!["one".to_owned()]));
        drop(NewFolder::create_new(&dir.path().join("b")).unwrap());
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn a_file_without_room_is_refused_before_a_byte_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let refused = NewFile::create_new(&dir.path().join("a"), u64::MAX).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(dir.path()), [""; 0]);
    }

    #[test]
    fn pipes_and_devices_are_written_to() {
        let mut file = NewFile::create(Path::new("/dev/null"), 4).unwrap();
        file.write_all(b"gone").unwrap();
        file.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
