//! The hidden names under which files gather until they are complete.

use xxhash_rust::xxh3::xxh3_64;

/// The longest file name that file systems accept.
const MAX_NAME_BYTES: usize = 255;
const PART_SUFFIX: &str = ".terrace-part";

/// Returns the name, in the same folder, under which the parts of the file `name` gather.
pub fn part_name(name: &[u8]) -> Vec<u8> {
    let start = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, last) = name.split_at(start);
    match 1 + last.len() + PART_SUFFIX.len() <= MAX_NAME_BYTES {
        true => [folder, b".", last, PART_SUFFIX.as_bytes()].concat(),
        false => [folder, format!(".{:016x}{PART_SUFFIX}", xxh3_64(last)).as_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_beside_their_file_under_a_name_that_fits() {
        assert_eq!(part_name(b"a/b.h5"), b"a/.b.h5.terrace-part");
        let long = [b"a/".as_slice(), &[b'x'; 255]].concat();
        assert!(part_name(&long).starts_with(b"a/.") && part_name(&long).len() <= 2 + MAX_NAME_BYTES);
        assert_ne!(part_name(&long), part_name(&[b"a/".as_slice(), &[b'y'; 255]].concat()));
    }
}
