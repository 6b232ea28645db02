//! [`series`]: which keys belong to one stream.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The highest number of numbers in the name of a file of a series.
const MAX_NUMBERS_IN_NAME: usize = 3;

/// Returns a hash that identifies the stream of a key. Files whose names differ only in numbers (ranks, steps, chunks) are a
/// series, which is one stream. The other files of one folder with one ending are one stream, too. So are files whose names
/// mix letters and digits, such as hashes.
pub fn series(key: &[u8], seed: u64) -> u64 {
    let folder = key.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
    let (folder, file) = key.split_at(folder);
    let ending = file.iter().rposition(|&b| b == b'.').filter(|&at| at > 0).map_or(&[][..], |at| &file[at..]);
    let numbers =
        |part: &[u8]| part.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).filter(is_number).count();
    let named = numbers(file) <= MAX_NUMBERS_IN_NAME && numbers(key) > 0;
    let counted = [folder, if named { file } else { ending }].concat();
    let parts = counted.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    parts.fold(seed, |seed, part| xxh3_64_with_seed(if is_number(&part) { b"#" } else { part }, seed))
}

fn is_number(part: &&[u8]) -> bool {
    part.first().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_one_stream_and_so_are_other_files_of_a_folder_and_ending() {
        let same = |a: &str, b: &str| series(a.as_bytes(), 0) == series(b.as_bytes(), 0);
        assert!(same("d/0/1/x.f32", "d/1/25/x.f32") && !same("d/0/1/x.f32", "d/0/1/y.f32"));
        assert!(same("out_0001.nc", "out_0002.nc") && !same("out_0001.nc", "in_0001.nc"));
        assert!(same("notes/a.txt", "notes/b.txt") && !same("notes/a.txt", "notes/b.md"));
        assert!(same("o/3f09ac1b7d2e", "o/9b11c2a45ef07") && !same("o/3f09ac1b7d2e", "p/9b11c2a45ef07"));
        assert!(same("field/c/0/0", "field/c/10/3") && same("", ""));
    }
}
