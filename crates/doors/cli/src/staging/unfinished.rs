//! The names of unfinished results, which are neither inputs nor results.

use terrace::is_part_name;

/// The words about an input or a result that has such a name.
pub const UNFINISHED_NAME: &str =
    "it has the name of an unfinished file of Terrace's, whose place the next one takes; give it another name";

/// Returns whether a key is that of an unfinished result, or of what is in an unfinished folder.
pub fn is_unfinished(key: &[u8]) -> bool {
    key.split(|byte| *byte == b'/').any(is_part_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_an_unfinished_folder_is_unfinished() {
        for key in ["a/.b.terrace-part", ".terrace-part/a", "a/.b.terrace-part/c"] {
            assert!(is_unfinished(key.as_bytes()), "{key}");
        }
        assert!(!is_unfinished(b"a/b.terrace-part") && !is_unfinished(b".terrace/a"));
    }
}
