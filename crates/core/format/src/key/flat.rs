//! The escape of flat keys, by which any byte string becomes a valid path.
//!
//! Escaped keys sort as the flat keys do, so a range of flat keys is a range of the catalog. A slash stays a slash, and most keys
//! only get one byte longer: [`END_MARK`] ends each escaped key and occurs nowhere else. So no escaped key is a path prefix of
//! another, and both `a` and `a/b` can exist.

use super::{KeyError, show};

/// The longest flat key, in bytes, as in S3.
pub const MAX_FLAT_KEY: usize = 1024;

/// Ends each escaped key. No other byte of an escaped key is as low, so a key sorts before all longer ones.
const END_MARK: u8 = 1;
/// Begins the code of one or two of the bytes 0, 1 and 2.
const CONTROL_MARK: u8 = 2;
/// Begins, at the start of a component, the code of a dot or of one or two slashes.
const START_MARK: u8 = b'.';
/// The lowest second byte of a code. It is neither NUL nor [`END_MARK`].
const FIRST_CODE: u8 = 3;

// Second bytes behind `START_MARK`, in the order of the bytes that they stand for.
const DOT_CODE: u8 = FIRST_CODE;
const SLASH_AND_LESS_CODE: u8 = FIRST_CODE + 1;
const TWO_SLASHES_CODE: u8 = FIRST_CODE + 2;
const SLASH_AND_MORE_CODE: u8 = FIRST_CODE + 3;

/// Second bytes behind `CONTROL_MARK` for each of the bytes 0, 1 and 2: it ends the key; 0, 1 or 2 follows and is part of the code;
/// another byte follows.
const CODES_PER_CONTROL: u8 = 5;

/// Escapes a flat key. The escape is a valid key of at most `7 / 4 * length + 2` bytes.
///
/// Each byte's code depends on the bytes before it and on how the next byte compares with a fixed byte. Codes in the same situation
/// sort as what they stand for, and none is a prefix of another. Therefore escapes sort as their keys.
///
/// ```
/// use terrace_format::key::{escape_flat, unescape_flat};
///
/// assert_eq!(escape_flat(b"photos/a.jpg"), b"photos/a.jpg\x01");
/// assert_eq!(escape_flat(b"a//../b"), b"a/.\x04.\x03./b\x01");
/// assert_eq!(unescape_flat(b"a/.\x04.\x03./b\x01"), Some(b"a//../b".to_vec()));
/// ```
pub fn escape_flat(flat: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(flat.len() + 8);
    let mut rest = flat;
    let mut is_start = true;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            0..=2 => {
                let code = match rest.split_first() {
                    None => 0,
                    Some((&second @ 0..=2, after)) => {
                        rest = after;
                        1 + second
                    }
                    Some(_) => 4,
                };
                escaped.extend([CONTROL_MARK, FIRST_CODE + CODES_PER_CONTROL * byte + code]);
                is_start = false;
            }
            b'.' if is_start => {
                escaped.extend([START_MARK, DOT_CODE]);
                is_start = false;
            }
            // An empty component. Its slash becomes part of the name of the component behind it.
            b'/' if is_start => {
                let code = match rest.split_first() {
                    Some((b'/', after)) => {
                        rest = after;
                        TWO_SLASHES_CODE
                    }
                    Some((next, _)) if *next > b'/' => SLASH_AND_MORE_CODE,
                    _ => SLASH_AND_LESS_CODE,
                };
                escaped.extend([START_MARK, code]);
            }
            _ => {
                escaped.push(byte);
                is_start = byte == b'/';
            }
        }
    }
    escaped.push(END_MARK);
    escaped
}

/// Returns the flat key whose escape is `escaped`, or `None` if there is none.
pub fn unescape_flat(escaped: &[u8]) -> Option<Vec<u8>> {
    let (&END_MARK, mut rest) = escaped.split_last()? else { return None };
    let mut flat = Vec::with_capacity(rest.len());
    let mut is_start = true;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != CONTROL_MARK && !(byte == START_MARK && is_start) {
            flat.push(byte);
            is_start = byte == b'/';
            continue;
        }
        let (&code, after) = rest.split_first()?;
        rest = after;
        match (byte, code) {
            (START_MARK, DOT_CODE) => {
                flat.push(b'.');
                is_start = false;
            }
            (START_MARK, SLASH_AND_LESS_CODE | SLASH_AND_MORE_CODE) => flat.push(b'/'),
            (START_MARK, TWO_SLASHES_CODE) => flat.extend(b"//"),
            (CONTROL_MARK, _) => {
                let code = code.checked_sub(FIRST_CODE)?;
                flat.push(code / CODES_PER_CONTROL);
                flat.extend(matches!(code % CODES_PER_CONTROL, 1..=3).then(|| code % CODES_PER_CONTROL - 1));
                is_start = false;
            }
            _ => return None,
        }
    }
    // Other bytes may decode as well, but they are not the escape of a key. Two names of one key would be two objects.
    (escape_flat(&flat) == escaped).then_some(flat)
}

/// Checks the length of a flat key.
pub(super) fn check_length(flat: &[u8]) -> Result<(), KeyError> {
    match flat.len() > MAX_FLAT_KEY {
        true => Err(KeyError::TooLong { key: show(flat), length: flat.len(), limit: MAX_FLAT_KEY }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::check;

    /// Mostly the bytes that the escape treats specially, and their neighbours.
    fn flat_key(longest: usize) -> impl Strategy<Value = Vec<u8>> {
        let special = prop::sample::select(b"\0\x01\x02\x03-./0a\xff".to_vec());
        prop::collection::vec(prop_oneof![6 => special, 1 => any::<u8>()], 0..longest)
    }

    fn check_one(flat: &[u8]) -> Result<(), TestCaseError> {
        let escaped = escape_flat(flat);
        prop_assert_eq!(unescape_flat(&escaped), Some(flat.to_vec()));
        prop_assert!(escaped.len() <= flat.len() * 7 / 4 + 2, "{:?} becomes {} bytes", flat, escaped.len());
        prop_assert_eq!(check(&escaped), Ok(()));
        prop_assert_eq!(escaped.iter().filter(|byte| **byte == END_MARK).count(), 1);
        Ok(())
    }

    proptest! {
        #[test]
        fn escapes_sort_as_their_keys(a in flat_key(12), b in flat_key(12)) {
            check_one(&a)?;
            prop_assert_eq!(a.cmp(&b), escape_flat(&a).cmp(&escape_flat(&b)));
            // Keys with a common beginning take other branches than random ones.
            let longer = [a.as_slice(), &b].concat();
            prop_assert_eq!(a.cmp(&longer), escape_flat(&a).cmp(&escape_flat(&longer)));
        }

        #[test]
        fn long_keys_fit(a in flat_key(MAX_FLAT_KEY + 1)) {
            check_one(&a)?;
        }

        #[test]
        fn bytes_that_decode_are_the_escape_of_their_key(bytes in flat_key(12)) {
            let ended = [bytes.as_slice(), &[END_MARK]].concat();
            for escaped in [bytes, ended] {
                if let Some(flat) = unescape_flat(&escaped) {
                    prop_assert_eq!(escape_flat(&flat), escaped);
                }
            }
        }
    }

    /// All keys of up to five of the bytes that matter, in order: their escapes are in order, too.
    #[test]
    fn all_short_keys_keep_their_order() {
        let bytes = b"\0\x01\x02\x03-./0";
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        let mut last = keys.clone();
        for _ in 0..5 {
            last = last.iter().flat_map(|key| bytes.map(|byte| [key.as_slice(), &[byte]].concat())).collect();
            keys.extend_from_slice(&last);
        }
        keys.sort();
        let escaped: Vec<Vec<u8>> = keys.iter().map(|key| escape_flat(key)).collect();
        assert!(escaped.windows(2).all(|pair| pair[0] < pair[1]));
        for (key, escaped) in keys.iter().zip(&escaped) {
            assert_eq!(unescape_flat(escaped).as_ref(), Some(key));
            assert_eq!(check(escaped), Ok(()), "{key:?}");
            assert!(escaped.len() <= key.len() * 7 / 4 + 2, "{key:?} becomes {escaped:?}");
        }
    }

    /// The keys that grow most.
    #[test]
    fn the_longest_escape_fits() {
        for unit in [&b"/.\0/"[..], b"/", b"\0", b"\0a", b"./", b"//.\0/"] {
            let longest: Vec<u8> = unit.iter().copied().cycle().take(MAX_FLAT_KEY).collect();
            let escaped = escape_flat(&longest);
            assert!(escaped.len() <= MAX_FLAT_KEY * 7 / 4 + 2, "{unit:?}: {}", escaped.len());
            assert_eq!((check(&escaped), check_length(&longest)), (Ok(()), Ok(())));
            let error = check_length(&[longest.as_slice(), b"x"].concat()).expect_err("is too long");
            assert!(error.to_string().contains("1025 bytes, but a flat key has at most 1024 bytes"), "{error}");
        }
    }
}
