//! The identity of a directory, however it is reached: by symbolic links, mounts or bind mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};

/// The location of a directory in a file system.
#[derive(Clone, Debug)]
pub struct Location {
    /// The file system, and the path from its root.
    at: Option<InFileSystem>,
    /// Devices and inodes of the directory and of all its parents.
    upwards: Vec<(u64, u64)>,
    /// Other file systems, or other parts of the same one, that are mounted below it.
    mounted: Vec<InFileSystem>,
    /// Whether it lies in a mounted store.
    is_mounted_store: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct InFileSystem {
    device: String,
    path: PathBuf,
}

/// A mounted file system, or a mounted part of one: a line of `/proc/self/mountinfo`.
pub struct Mount {
    id: u64,
    /// Where it is mounted.
    pub at: PathBuf,
    holds: InFileSystem,
    kind: String,
    source: String,
}

impl Location {
    /// Locates a directory; for one that does not exist yet, the place where it would be created.
    pub fn of(path: &Path) -> io::Result<Location> {
        let (there, rest) = existing(path)?;
        let mounts = mounts();
        let mount = mount_id(&there).and_then(|id| mounts.iter().find(|mount| mount.id == id));
        let path = there.join(&rest);
        let in_mount = |mount: &Mount| Some(mount.holds.path.join(path.strip_prefix(&mount.at).ok()?));
        let at =
            mount.and_then(|mount| Some(InFileSystem { device: mount.holds.device.clone(), path: in_mount(mount)? }));
        let below = mounts.iter().filter(|mount| mount.at != path && mount.at.starts_with(&path));
        let mounted = below.map(|mount| mount.holds.clone()).collect();
        let number = |folder: &Path| fs::metadata(folder).map(|metadata| (metadata.dev(), metadata.ino()));
        let upwards = match rest.as_os_str().is_empty() {
            true => there.ancestors().map(number).collect::<io::Result<_>>()?,
            // A directory that does not exist has no inode and contains nothing.
            false => std::iter::once(Ok((0, 0))).chain(there.ancestors().map(number)).collect::<io::Result<_>>()?,
        };
        Ok(Location { at, upwards, mounted, is_mounted_store: mount.is_some_and(Mount::is_store) })
    }

    /// Whether the two are the same directory, or one contains the other.
    pub fn overlaps(&self, other: &Location) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether `other` is this directory or lies in it.
    pub fn contains(&self, other: &Location) -> bool {
        let holds = |outer: &InFileSystem, inner: &InFileSystem| {
            outer.device == inner.device && inner.path.starts_with(&outer.path)
        };
        let by_path = |inner: &InFileSystem| self.at.iter().chain(&self.mounted).any(|outer| holds(outer, inner));
        let is_numbered = |number: &(u64, u64)| *number != (0, 0) && other.upwards.contains(number);
        other.at.as_ref().is_some_and(by_path) || self.upwards.first().is_some_and(is_numbered)
    }

    /// Whether the directory lies in a mounted store.
    pub fn is_mounted_store(&self) -> bool {
        self.is_mounted_store
    }
}

impl Mount {
    /// Returns the mount that holds a directory; `None` without `/proc`.
    pub fn of(path: &Path) -> Option<Mount> {
        let id = mount_id(path)?;
        mounts().into_iter().find(|mount| mount.id == id)
    }

    /// Whether it is still mounted where it was.
    pub fn is_mounted(&self) -> bool {
        // The system gives an id again once its mount is gone.
        mounts().iter().any(|mount| (mount.id, &mount.at, &mount.holds) == (self.id, &self.at, &self.holds))
    }

    /// Whether the mount is a store. A mount that root makes without the helper `fusermount3` has no subtype; only its source identifies
    /// it.
    fn is_store(&self) -> bool {
        self.kind == "fuse.terrace" || self.kind == "fuse" && self.source == "terrace"
    }
}

/// Splits a path into the part that exists, without symbolic links, and the rest.
fn existing(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut rest = Vec::new();
    let mut there = std::path::absolute(path)?;
    loop {
        match fs::canonicalize(&there) {
            Ok(found) => return Ok((found, rest.iter().rev().collect())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let Some(last) = there.file_name().map(OsString::from) else { return Err(e) };
                rest.push(last);
                there.pop();
            }
            Err(e) => return Err(e),
        }
    }
}

fn mount_id(path: &Path) -> Option<u64> {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

fn mounts() -> Vec<Mount> {
    // Without /proc, the comparison relies on device and inode numbers alone.
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [id, _, device, root, at, ..] = words[..] else { return None };
    let dash = words.iter().position(|word| *word == b"-")?;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let path = |word: &[u8]| PathBuf::from(OsString::from_vec(without_escapes(word)));
    Some(Mount {
        id: text(id).parse().ok()?,
        at: path(at),
        holds: InFileSystem { device: text(device), path: path(root) },
        kind: text(words.get(dash + 1)?),
        source: text(words.get(dash + 2)?),
    })
}

/// Decodes the octal escapes of `mountinfo`: a backslash and three digits.
fn without_escapes(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}
