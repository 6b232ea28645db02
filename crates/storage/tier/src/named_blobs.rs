//! Blobs of a service by their names: a store keeps a copy of its log in them, and what else is needed to make it again.

use std::io;
use std::time::SystemTime;

/// The prefix of the pieces of the log's files.
pub const LOG_PREFIX: &str = "log/";
/// The blob with the store's configuration.
pub const CONFIG_BLOB: &str = "terrace.toml";
/// The blob that says how far the target was synced.
pub const SYNCED_BLOB: &str = "terrace-synced";

/// Blobs by their names.
pub trait NamedBlobs: Send + Sync {
    /// Writes a blob that is not there yet. Returns false, and changes nothing, if it is there. A service without such a condition is asked
    /// first whether it is.
    fn write_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<bool>;

    /// Writes a blob, which may be there.
    fn replace(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// Reads a blob. `NotFound` if it is not there.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Reads a blob. None if it is not there.
    fn read_if_there(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.read(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Lists the names of the blobs below `folder`, in order. `folder` ends with `/`.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Deletes the blobs below `folder`, and the folder itself where the service has folders.
    fn delete_below(&self, folder: &str) -> io::Result<()>;

    /// Returns when a blob was written, by the service's clock. None if the service does not tell.
    fn modified(&self, name: &str) -> io::Result<Option<SystemTime>>;
}

/// A piece of a copy of the log, as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPiece {
    /// Whether it is one of a snapshot.
    pub is_snapshot: bool,
    /// The number of the log's file, or of the snapshot.
    pub file: u64,
    /// The place of its first byte there.
    pub start: u64,
}

impl LogPiece {
    /// Parses the name of a blob. None if it is no piece.
    pub fn parse(name: &str) -> Option<LogPiece> {
        let (folder, start) = name.strip_prefix(LOG_PREFIX)?.split_once('/')?;
        let (file, ending) = folder.split_once('.')?;
        let number = |hex: &str| (hex.len() == 16).then(|| u64::from_str_radix(hex, 16).ok())?;
        let is_snapshot = match ending {
            "log" => false,
            "snapshot" => true,
            _ => return None,
        };
        Some(LogPiece { is_snapshot, file: number(file)?, start: number(start)? })
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("{}{:016x}", self.folder(), self.start)
    }

    /// The folder of all pieces of its file, as it begins their names.
    pub fn folder(&self) -> String {
        format!("{LOG_PREFIX}{}/", self.file_name())
    }

    /// The name of its file in the log's folder.
    pub fn file_name(&self) -> String {
        format!("{:016x}.{}", self.file, if self.is_snapshot { "snapshot" } else { "log" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_known_by_its_name() {
        let piece = LogPiece { is_snapshot: false, file: 0x2b, start: 0x1000 };
        let name = piece.name();
        assert_eq!(name, "log/000000000000002b.log/0000000000001000");
        assert_eq!(LogPiece::parse(&name), Some(piece));
        let of_snapshot = LogPiece::parse("log/0000000000000001.snapshot/0000000000000000");
        assert_eq!(of_snapshot, Some(LogPiece { is_snapshot: true, file: 1, start: 0 }));
        for other in
            ["log/1.log/2", "log/000000000000002b.new/0000000000001000", "segments/000000000000002b/000", "log/"]
        {
            assert_eq!(LogPiece::parse(other), None, "{other}");
        }
    }
}
