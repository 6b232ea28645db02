//! Key spaces: folders with a rule for the names in them, such as the buckets of S3.

use super::flat::{check_length, escape_flat, unescape_flat};
use super::{KeyError, MAX_KEY, check, show};

/// The longest folder of a key space, in bytes. The name of an S3 bucket has at most 63.
pub const MAX_SPACE_FOLDER: usize = 120;

// The longest flat key fits into each key space.
const _: () = assert!(MAX_SPACE_FOLDER + 1 + super::MAX_FLAT_KEY * 7 / 4 + 2 <= MAX_KEY);

/// The rule that decides the names in a key space, and the keys of their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// A name is a path below the folder. Files and flat doors see the same names.
    Paths,
    /// A name is any byte string of up to [`super::MAX_FLAT_KEY`] bytes. Its object's key is the escaped name below the
    /// folder.
    Flat,
}

/// A folder of a store, and the rule of the names in it.
///
/// ```
/// use terrace_format::key::{KeyRule, KeySpace};
///
/// let bucket = KeySpace::new(b"photos", KeyRule::Flat)?;
/// assert_eq!(bucket.key(b"2024//a.jpg")?, b"photos/2024/.\x06a.jpg\x01");
/// assert_eq!(bucket.name(b"photos/2024/.\x06a.jpg\x01"), Some(b"2024//a.jpg".to_vec()));
///
/// let folder = KeySpace::new(b"photos", KeyRule::Paths)?;
/// assert_eq!(folder.key(b"2024/a.jpg")?, b"photos/2024/a.jpg");
/// assert!(folder.key(b"2024//a.jpg").is_err());
/// # Ok::<(), terrace_format::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    folder: Vec<u8>,
    rule: KeyRule,
}

impl KeySpace {
    /// Returns the key space in `folder`.
    ///
    /// # Errors
    /// [`KeyError`] if the folder is not a valid key, or has more than [`MAX_SPACE_FOLDER`] bytes.
    pub fn new(folder: &[u8], rule: KeyRule) -> Result<KeySpace, KeyError> {
        check(folder)?;
        if folder.len() > MAX_SPACE_FOLDER {
            return Err(KeyError::Bad { key: show(folder), reason: "the folder of a key space has at most 120 bytes" });
        }
        Ok(KeySpace { folder: folder.to_vec(), rule })
    }

    /// Returns the folder that contains all keys of the space.
    pub fn folder(&self) -> &[u8] {
        &self.folder
    }

    /// Returns the rule of its names.
    pub fn rule(&self) -> KeyRule {
        self.rule
    }

    /// Returns the key of the object with this name.
    ///
    /// # Errors
    /// [`KeyError`] if no object can have this name: it is too long, or the rule is [`KeyRule::Paths`] and it is not a path.
    pub fn key(&self, name: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.position(name);
        match self.rule {
            KeyRule::Paths => check(&key)?,
            KeyRule::Flat => check_length(name)?,
        }
        Ok(key)
    }

    /// Returns the name of the object with this key, or `None` if the key belongs to no name of the space.
    pub fn name(&self, key: &[u8]) -> Option<Vec<u8>> {
        let below = key.strip_prefix(self.folder.as_slice())?.strip_prefix(b"/")?;
        match self.rule {
            KeyRule::Paths => Some(below.to_vec()),
            KeyRule::Flat => unescape_flat(below),
        }
    }

    /// Returns the position of `name` in the order of keys, for any byte string. Names sort as their positions do.
    pub fn position(&self, name: &[u8]) -> Vec<u8> {
        let mut position = [self.folder.as_slice(), b"/"].concat();
        match self.rule {
            KeyRule::Paths => position.extend_from_slice(name),
            KeyRule::Flat => position.append(&mut escape_flat(name)),
        }
        position
    }

    /// Returns the first position after all names of the space.
    pub fn end(&self) -> Vec<u8> {
        [self.folder.as_slice(), &[b'/' + 1]].concat()
    }
}

/// Returns the lowest byte string above all that begin with `prefix`, or `None` if there is none.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_sort_as_their_positions_and_stay_in_the_space(
            a in prop::collection::vec(any::<u8>(), 0..20), b in prop::collection::vec(any::<u8>(), 0..20), is_flat: bool,
        ) {
            let space = KeySpace::new(b"b/c", if is_flat { KeyRule::Flat } else { KeyRule::Paths }).expect("is a space");
            prop_assert_eq!(a.cmp(&b), space.position(&a).cmp(&space.position(&b)));
            prop_assert!(space.position(&a) < space.end());
            match space.key(&a) {
                Ok(key) => {
                    prop_assert_eq!(check(&key), Ok(()));
                    prop_assert_eq!(space.name(&key), Some(a));
                }
                Err(_) => prop_assert!(!is_flat),
            }
        }

        #[test]
        fn a_prefix_ends_where_the_next_one_begins(
            prefix in prop::collection::vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 0..4),
            other in prop::collection::vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 0..6),
        ) {
            let is_before_end = after_prefix(&prefix).is_none_or(|end| other < end);
            prop_assert_eq!(other.starts_with(&prefix), prefix <= other && is_before_end);
        }
    }

    #[test]
    fn a_space_refuses_folders_and_names_that_cannot_be() {
        for folder in [&b""[..], b"a/", b"..", &[b'f'; MAX_SPACE_FOLDER + 1]] {
            assert!(KeySpace::new(folder, KeyRule::Flat).is_err(), "{folder:?}");
        }
        let space = KeySpace::new(&[b'f'; MAX_SPACE_FOLDER], KeyRule::Flat).expect("is a space");
        let longest: Vec<u8> = b"/.\0/".iter().copied().cycle().take(super::super::MAX_FLAT_KEY).collect();
        assert_eq!(check(&space.key(&longest).expect("fits")), Ok(()));
        assert!(matches!(space.key(&[0; 1025]), Err(KeyError::TooLong { length: 1025, limit: 1024, .. })));
        assert_eq!(space.name(b"elsewhere/a\x01"), None);
        let paths = KeySpace::new(b"f", KeyRule::Paths).expect("is a space");
        for name in [&b""[..], b"a/", b"a//b", b"../a", b"a\0"] {
            assert!(paths.key(name).is_err(), "{name:?}");
        }
    }
}
