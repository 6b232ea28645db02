//! The parsers of text that clients send and that attributes and files have, for tests with hostile bytes.

use terrace::{Attributes, ETAG_DIGEST, Object};

use crate::keys::Keys;
use crate::{described, part_lengths, tags};

/// Lengths of objects whose parts a text may name.
const SAMPLE_LENGTHS: [u64; 2] = [0, 15_728_647];

/// Valid texts of each kind.
pub fn sample_texts() -> Vec<Vec<u8>> {
    let texts = ["a=1&b%26c=x+y&d", "# clients\nana 0123456789abcdef\n", "3x5242880,7,0"];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Parses the bytes as a text of each kind. Returns whether any is valid.
pub fn parse_text(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let mut attributes = Attributes::default();
    let has_tags = tags::of_header(Some(text)).is_ok_and(|encoded| {
        described::set(&mut attributes, described::TAGS_ATTRIBUTE, encoded);
        tags::count(&attributes).is_some()
    });
    described::set(&mut attributes, part_lengths::PART_LENGTHS, Some(text.to_owned()));
    attributes.set_digest(ETAG_DIGEST, "1");
    let has_parts = SAMPLE_LENGTHS.into_iter().any(|length| {
        let object =
            Object { id: 1, generation: 1, length, want: 1, attributes: attributes.clone(), extents_in_record: None };
        let _ = part_lengths::part_range(&object, 10_000);
        part_lengths::part_count(&object).is_some()
    });
    has_tags || has_parts || Keys::parse(text).is_ok()
}
