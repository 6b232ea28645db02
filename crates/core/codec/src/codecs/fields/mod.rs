//! Fields: records whose fields are stored apart, each with an encoding of its own. `docs/format.md` specifies the payload, which a
//! decoder reads without knowledge of the records.
//!
//! The encoder stores each word of the records as a single field, by pco, or as one field for each of its bytes, whichever is
//! shorter.

mod layout;
mod table;

use terrace_kernels::{join_fields, split_fields};

use self::layout::Layout;
use self::table::{Field, Table};
use super::{Result, text};
use crate::{CodecId, Element, Encoding, Scratch, Transform};

/// The encodings of the bytes of one place in all records.
const PLANE_ENCODINGS: [Encoding; 2] = [
    Encoding { codec: CodecId::Huffman, ..Encoding::NONE },
    Encoding { codec: CodecId::Zstd, level: 1, ..Encoding::NONE },
];

/// The state that is kept between calls.
#[derive(Default)]
pub struct Context {
    /// The words or fields of all records, one behind the other.
    split: Vec<u8>,
    /// The bytes of one word, by their places.
    planes: Vec<u8>,
    /// The encoded fields.
    stored: Vec<u8>,
    attempt: Vec<u8>,
    /// The scratch of the fields' encodings. It is made when it is needed: it has such a context itself.
    scratch: Option<Box<Scratch>>,
}

impl Context {
    pub fn encode(&mut self, element: Element, source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
        let Some(layout) = Layout::find(element, source) else {
            // As long as the source, so it is stored raw.
            out.extend_from_slice(source);
            return Ok(());
        };
        let (head, rest) = source.split_at(layout.head);
        let (records, tail) = rest.split_at(rest.len() - rest.len() % layout.record);
        let mut split = std::mem::take(&mut self.split);
        split.resize(records.len(), 0);
        split_fields(&vec![layout.word; layout.record / layout.word], records, &mut split);
        self.stored.clear();
        let mut fields = Vec::new();
        let mut words = split.chunks(records.len() / layout.record * layout.word);
        let encoded = words.try_for_each(|word| self.encode_word(element, layout.word, word, level, &mut fields));
        self.split = split;
        encoded?;
        Table { head: head.len(), fields }.write(out);
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
        out.extend_from_slice(&self.stored);
        Ok(())
    }

    /// Encodes the same word of all records.
    fn encode_word(
        &mut self,
        element: Element,
        width: usize,
        word: &[u8],
        level: i8,
        fields: &mut Vec<Field>,
    ) -> Result<()> {
        let Context { planes, stored, attempt, scratch, .. } = self;
        let scratch = scratch.get_or_insert_default();
        let (first, start) = (fields.len(), stored.len());
        planes.resize(word.len(), 0);
        split_fields(&vec![1; width], word, planes);
        for plane in planes.chunks(word.len() / width) {
            let at = stored.len();
            stored.extend_from_slice(plane);
            let mut chosen = Encoding::NONE;
            for encoding in PLANE_ENCODINGS {
                let shrunk = crate::encode(encoding, plane, attempt, scratch).map_err(text)?;
                if shrunk.is_some_and(|length| length < stored.len() - at) {
                    stored.truncate(at);
                    stored.extend_from_slice(attempt);
                    chosen = encoding;
                }
            }
            fields.push(Field { width: 1, encoding: chosen, stored: stored.len() - at });
        }
        let Some(element) = Some(layout::element_of_word(element)).filter(|e| level > 0 && *e != Element::Bytes) else {
            return Ok(());
        };
        let pco = Encoding { transform: Transform::None, element, codec: CodecId::Pco, level };
        let shrunk = crate::encode(pco, word, attempt, scratch).map_err(text)?;
        let planes_length = stored.len() - start + (width - 1) * table::ROW_BYTES;
        if let Some(length) = shrunk.filter(|length| *length < planes_length) {
            fields.truncate(first);
            fields.push(Field { width, encoding: pco, stored: length });
            stored.truncate(start);
            stored.extend_from_slice(attempt);
        }
        Ok(())
    }

    pub fn decode(&mut self, stored: &[u8], target: &mut [u8]) -> Result<usize> {
        let (table, stored) = Table::read(stored)?;
        let widths: Vec<usize> = table.fields.iter().map(|field| field.width).collect();
        let record: usize = widths.iter().sum();
        let length = target.len();
        let (head, rest) = target.split_at_mut_checked(table.head).ok_or("the first record begins behind the end")?;
        let (records, tail) = rest.split_at_mut(rest.len() - rest.len() % record);
        let count = records.len() / record;
        let (ends, mut stored) =
            stored.split_at_checked(head.len() + tail.len()).ok_or("the bytes around the records are cut short")?;
        let (stored_head, stored_tail) = ends.split_at(head.len());
        head.copy_from_slice(stored_head);
        tail.copy_from_slice(stored_tail);
        self.split.resize(records.len(), 0);
        let scratch = self.scratch.get_or_insert_default();
        let mut at = 0;
        for field in &table.fields {
            let (own, others) = stored.split_at_checked(field.stored).ok_or("a field is cut short")?;
            let end = at + count * field.width;
            crate::decode(field.encoding, own, &mut self.split[at..end], scratch).map_err(text)?;
            (at, stored) = (end, others);
        }
        if !stored.is_empty() {
            return Err("bytes follow the last field".to_owned());
        }
        join_fields(&widths, &self.split, records);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a float with noise, a counter, and a constant.
    fn particles(count: u32) -> Vec<u8> {
        let mix = |i: u32| (i ^ i >> 5).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(0x9E37_79B1);
        let noise = |i: u32| f32::from_bits(0x3f80_0000 | mix(i) >> 9);
        (0..count).flat_map(|i| [noise(i).to_le_bytes(), i.to_le_bytes(), [0, 0, 192, 63]].concat()).collect()
    }

    fn encoded(element: Element, raw: &[u8], level: i8) -> Vec<u8> {
        let mut out = Vec::new();
        Context::default().encode(element, raw, level, &mut out).expect("encodes");
        out
    }

    #[test]
    fn each_field_has_the_encoding_that_suits_it() {
        let raw = particles(5000);
        for (level, words) in [(0, 0), (4, 1)] {
            let stored = encoded(Element::F32, &raw, level);
            let (table, _) = Table::read(&stored).expect("a table");
            let pco = table.fields.iter().filter(|field| field.encoding.codec == CodecId::Pco).count();
            assert!(pco >= words && (words > 0 || pco == 0), "{pco} at level {level}");
            assert!(level > 0 || table.fields.iter().any(|field| field.encoding == Encoding::NONE), "noise is raw");
            assert!(stored.len() < raw.len() / 2, "{} of {}", stored.len(), raw.len());
        }
    }

    #[test]
    fn records_that_do_not_begin_at_the_start_are_found() {
        let raw = particles(3000);
        let lengths = [0, 1, 2, 3].map(|skip| {
            let cut = [&raw[raw.len() - skip..], &raw].concat();
            let stored = encoded(Element::F32, &cut, 0);
            let mut back = vec![0; cut.len()];
            assert_eq!(Context::default().decode(&stored, &mut back), Ok(cut.len()));
            assert!(back == cut, "{skip} bytes before the first record");
            assert_eq!(Table::read(&stored).expect("a table").0.head, skip);
            stored.len()
        });
        assert!(lengths.iter().all(|length| length.abs_diff(lengths[0]) < 100), "{lengths:?}");
    }

    #[test]
    fn a_field_has_no_fields() {
        let fields = Encoding { codec: CodecId::Fields, ..Encoding::NONE };
        let mut stored = Vec::new();
        Table { head: 0, fields: vec![Field { width: 4, encoding: fields, stored: 400 }] }.write(&mut stored);
        stored.resize(stored.len() + 400, 0);
        let error = Context::default().decode(&stored, &mut [0; 400]).expect_err("refused");
        assert!(error.contains("in a field"), "{error}");
    }
}
