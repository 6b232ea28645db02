//! Mounts as Linux lists them in `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Mount {
    id: u64,
    /// The part of the file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type's name, such as `ext4` or `fuse.sshfs`.
    pub kind: String,
    /// A device, a server, or any word.
    pub source: String,
    /// Options of the file system.
    options: String,
    pub read_only: bool,
}

/// All mounts that this process sees. Empty if the list cannot be read.
#[derive(Debug, Default)]
pub struct Mounts(pub Vec<Mount>);

impl Mounts {
    pub fn read() -> Mounts {
        // Without the list, the numbers of file-system types still identify the most important ones.
        Mounts::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    pub fn parse(text: &[u8]) -> Mounts {
        let lines = text.split(|byte| *byte == b'\n');
        Mounts(lines.filter_map(parse_line).collect())
    }

    /// Returns the mount of an open file.
    pub fn find(&self, file: &File) -> Option<&Mount> {
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse::<u64>().ok()?;
        self.0.iter().find(|mount| mount.id == id)
    }

    /// Returns the mount of a path: the one with the longest mount point, and the newest of those.
    pub fn find_by_path(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.components().count())
    }
}

impl Mount {
    /// Returns the value of the option `name`.
    pub fn option(&self, name: &str) -> Option<PathBuf> {
        let mut options = split_options(&self.options).into_iter();
        let value = options.find_map(|option| option.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))?;
        Some(PathBuf::from(value.replace("\\:", ":").replace("\\,", ",").replace("\\\\", "\\")))
    }
}

/// Splits at commas that do not follow a backslash.
fn split_options(options: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in options.bytes().enumerate() {
        if byte == b',' && !escaped {
            parts.push(&options[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&options[start..]);
    parts
}

/// Fields: id, parent, device, root, point, options, optional ones up to `-`, type, source, the file system's options.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<Vec<u8>> = line.split(|byte| *byte == b' ').map(unescape).collect();
    let text = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
    let path = |field: &Vec<u8>| PathBuf::from(OsString::from_vec(field.clone()));
    let end = fields.iter().skip(6).position(|field| field == b"-")? + 6;
    let read_only = |field: &Vec<u8>| field.split(|byte| *byte == b',').any(|option| option == b"ro");
    let options = fields.get(end + 3)?;
    Some(Mount {
        id: text(fields.first()?).parse().ok()?,
        root: path(fields.get(3)?),
        point: path(fields.get(4)?),
        kind: text(fields.get(end + 1)?),
        source: text(fields.get(end + 2)?),
        options: text(options),
        read_only: read_only(fields.get(5)?) || read_only(options),
    })
}

/// Decodes blanks, tabs, line ends and backslashes, which are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, tail @ ..] = rest {
        let code =
            tail.first_chunk::<3>().filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}
