//! The layout of records, found by how often their bytes repeat.

use crate::Element;

/// The length of the longest record that is looked for, in bytes.
const MAX_RECORD_BYTES: usize = 128;
/// Fewer records than this are not worth a table.
const MIN_RECORDS: usize = 16;
/// The number of bytes that are compared with those one record behind.
const COMPARED_BYTES: usize = 4096;
/// A longer record must repeat more bytes than a shorter one by at least this share of the compared bytes: a record repeats as often as
/// two of them.
const MIN_GAIN_DIVISOR: usize = 64;

/// Where records lie in some bytes, and the width of their words.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of bytes before the first record, less than a word.
    pub head: usize,
    /// The length of a record in bytes: a multiple of the word.
    pub record: usize,
    /// The width of a word in bytes.
    pub word: usize,
}

/// Returns the type of the words of records whose element is given.
pub fn element_of_word(element: Element) -> Element {
    match element {
        Element::Record32 => Element::F32,
        element => element,
    }
}

impl Layout {
    /// Finds the layout of records of words of this type; of records of 32 bytes, the length is known. Returns `None` for
    /// too few records.
    pub fn find(element: Element, source: &[u8]) -> Option<Layout> {
        let word = element_of_word(element).width();
        let middle = &source[source.len().saturating_sub(COMPARED_BYTES + MAX_RECORD_BYTES) / 2..];
        // The window begins at a word, so that places in a word are those in the source.
        let skip = (source.len() - middle.len()).next_multiple_of(word) - (source.len() - middle.len());
        let middle = middle.get(skip..)?;
        let record = match element {
            Element::Record32 => element.width(),
            _ => find_record(middle, word),
        };
        let head = find_head(middle, record, word);
        ((source.len() - head) / record >= MIN_RECORDS).then_some(Layout { head, record, word })
    }
}

/// Counts the bytes that repeat one record later.
fn count_equal(bytes: &[u8], record: usize) -> usize {
    // The count of a short chunk fits a byte, which lets the compiler use vectors.
    const CHUNK_BYTES: usize = 128;
    let before = bytes[..bytes.len().min(COMPARED_BYTES)].chunks(CHUNK_BYTES);
    let behind = bytes.get(record..).unwrap_or_default().chunks(CHUNK_BYTES);
    let equal = |(a, b): (&[u8], &[u8])| usize::from(a.iter().zip(b).map(|(a, b)| u8::from(a == b)).sum::<u8>());
    before.zip(behind).map(equal).sum()
}

/// Returns the length of records at which most bytes repeat.
fn find_record(bytes: &[u8], word: usize) -> usize {
    let (mut best, mut most) = (word, 0);
    for record in (word..=MAX_RECORD_BYTES).step_by(word) {
        let equal = count_equal(bytes, record);
        if equal > most + if record == word { 0 } else { COMPARED_BYTES / MIN_GAIN_DIVISOR } {
            (best, most) = (record, equal);
        }
    }
    best
}

/// Returns the place of the first word: high bytes repeat more often than low ones, and are the last ones of a word.
fn find_head(bytes: &[u8], record: usize, word: usize) -> usize {
    let mut equal = vec![0i64; word];
    let pairs = bytes.iter().zip(bytes.get(record..).unwrap_or_default()).take(COMPARED_BYTES);
    for (at, (a, b)) in pairs.enumerate() {
        equal[at % word] += i64::from(a == b);
    }
    let gain = |head: usize| equal[(head + word - 1) % word] - equal[head];
    let best = (0..word).max_by_key(|head| (gain(*head), std::cmp::Reverse(*head))).unwrap_or(0);
    if gain(best) > gain(0) + (COMPARED_BYTES / MIN_GAIN_DIVISOR) as i64 { best } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_records_are_found() {
        let of = |words: u32| -> Vec<u8> {
            let mut state = 1u64;
            let word = |i: u32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (0x1100_0000 * (i % words) + (state >> 48) as u32).to_le_bytes()
            };
            (0..20_000).flat_map(word).collect()
        };
        for words in [1, 2, 5, 8, 9] {
            let layout = Layout::find(Element::F32, &of(words)).expect("records");
            assert_eq!(layout, Layout { head: 0, record: 4 * words as usize, word: 4 });
        }
        assert_eq!(Layout::find(Element::Record32, &of(1)).expect("records").record, 32);
        assert_eq!(Layout::find(Element::Record32, &of(1)[..500]), None);
        assert_eq!(Layout::find(Element::F64, &[]), None);
    }
}
