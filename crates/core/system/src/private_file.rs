//! Files that only their owner may read, such as those of secrets.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::open_regular;

/// The permissions of others than the owner.
const OTHERS_MODE: u32 = 0o077;

/// Reads a file of at most `limit` bytes that only its owner may read.
///
/// # Errors
/// `InvalidInput` if it cannot be read, others may use it, or it is longer. The text says so and what to do, without the path.
pub fn read_private(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let unreadable = |error: io::Error| wrong(format!("cannot be read: {error}"));
    let file = open_regular(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.mode() & OTHERS_MODE != 0 {
        return Err(wrong("can be read by others; make its mode 600".into()));
    }
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(wrong(format!("is longer than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_what_others_cannot_read_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let refused = |limit| read_private(&path, limit).unwrap_err().to_string();
        assert!(refused(9).contains("cannot be read"));
        fs::write(&path, b"a secret").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o602] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refused(9).contains("mode 600"), "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_private(&path, 8).unwrap(), b"a secret");
        assert!(refused(7).contains("longer than 7 bytes"));
        assert!(read_private(dir.path(), 9).is_err());
    }
}
