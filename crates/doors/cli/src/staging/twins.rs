//! Keys that differ only in case. A destination that ignores case has one place for them, which is the first one's.

use std::collections::BTreeSet;

/// Returns the keys that differ only in case from one before them.
pub fn find_twins<'a>(keys: impl Iterator<Item = &'a [u8]>) -> BTreeSet<Vec<u8>> {
    let mut known = BTreeSet::new();
    keys.filter(|key| !known.insert(String::from_utf8_lossy(key).to_lowercase())).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_differs_in_case_from_an_earlier_one_is_a_twin() {
        let keys = ["Run/a", "run/b", "run/A", "É", "é", "run/aa"];
        let twins = find_twins(keys.iter().map(|key| key.as_bytes()));
        assert_eq!(twins, BTreeSet::from(["run/A".as_bytes().to_vec(), "é".as_bytes().to_vec()]));
    }
}
