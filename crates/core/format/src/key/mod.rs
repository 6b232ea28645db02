//! Keys: paths of bytes, `/` between components. `docs/keys.md` explains them, and the flat keys that are escaped to them.

mod flat;
mod space;

pub use flat::{MAX_FLAT_KEY, escape_flat, unescape_flat};
pub use space::{KeyRule, KeySpace, MAX_SPACE_FOLDER, after_prefix};

/// A key, or a range of an object, that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No object may have this key.
    #[error("the key {key:?} is not allowed: {reason}; write keys as paths, such as data/a.h5")]
    Bad {
        /// The key as given, printed lossily.
        key: String,
        /// The reason.
        reason: &'static str,
    },
    /// A flat key is too long.
    #[error("the key {key:?} has {length} bytes, but a flat key has at most {limit} bytes; use a shorter key")]
    TooLong {
        /// The key as given, printed lossily.
        key: String,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The range is beyond the limit for objects.
    #[error("{key:?}: byte {end} is beyond the end of any object: an object has at most 2^63 - 1 bytes")]
    TooLarge {
        /// The key, printed lossily.
        key: String,
        /// The end of the range, as far as a number of 64 bits can hold it.
        end: u64,
    },
}

/// The longest key, in bytes. It is long enough for each escaped flat key of up to [`MAX_FLAT_KEY`] bytes, with the folder
/// of its key space. LMDB accepts 1,982 bytes with pages of 4 KiB, and the catalog adds up to 11 before a key.
pub const MAX_KEY: usize = 1920;

/// The store keeps its own objects below this key.
pub const RESERVED_FOLDER: &[u8] = b".terrace";

/// Uploads of several parts that are in progress: a folder for each, with the parts in it. None of them is ever a plain file.
pub const UPLOADS_FOLDER: &[u8] = b".terrace/uploads";

/// Checks that `key` may name an object: 1 to 1,920 bytes, no NUL, no empty, `.` or `..` component.
///
/// ```
/// assert!(terrace_format::key::check(b"runs/a.h5").is_ok());
/// assert!(terrace_format::key::check(b"../etc/passwd").is_err());
/// ```
pub fn check(key: &[u8]) -> Result<(), KeyError> {
    let refuse = |reason| Err(KeyError::Bad { key: show(key), reason });
    if key.is_empty() {
        return refuse("it is empty");
    }
    if key.len() > MAX_KEY {
        return refuse("it is longer than 1,920 bytes");
    }
    if key.contains(&0) {
        return refuse("it contains a NUL byte");
    }
    for component in key.split(|&byte| byte == b'/') {
        match component {
            b"" => return refuse("it has an empty component (a leading, trailing or double '/')"),
            b"." | b".." => return refuse("it has a '.' or '..' component"),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the end of a range of an object's bytes. Fails if it is above the limit of 2^63 - 1.
pub fn check_end(key: &[u8], offset: u64, length: u64) -> Result<u64, KeyError> {
    let end = offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| KeyError::TooLarge { key: show(key), end: offset.saturating_add(length) })
}

/// Returns the key as text. Bytes that are not UTF-8 are replaced.
pub fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// The key as hexadecimal digits, for texts that must hold each key without loss.
pub fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key whose [`hex`] this is.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Returns whether `key` equals `prefix` or lies below it. An empty prefix contains every key, and a trailing `/` is
/// ignored. Prefixes match whole components.
pub fn below(key: &[u8], prefix: &[u8]) -> bool {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    prefix.is_empty() || key.strip_prefix(prefix).is_some_and(|rest| rest.first().is_none_or(|&b| b == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_escape_or_cannot_be_files_are_refused() {
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0b"] {
            assert!(check(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(check(&[b'a'; MAX_KEY + 1]).is_err());
        for good in ["a", "a b/c", "a/..b", "\u{fc}"] {
            assert!(check(good.as_bytes()).is_ok(), "{good:?}");
        }
        assert!(check(b"\xff\xfe").is_ok());
    }

    #[test]
    fn a_key_is_read_back_from_its_digits() {
        assert_eq!(hex(&[0, 255, 122]), "00ff7a");
        assert_eq!(unhex("00ff7a"), Some(vec![0, 255, 122]));
        assert_eq!((unhex(""), unhex("0g")), (Some(vec![]), None));
    }

    #[test]
    fn prefixes_match_whole_components() {
        assert!(below(b"runs/a", b"runs"));
        assert!(below(b"runs/a", b"runs/"));
        assert!(below(b"runs", b"runs"));
        assert!(!below(b"runs2/a", b"runs"));
        assert!(below(b"x", b""));
    }
}
