//! Containers whose metadata tells only the compression: Avro and ORC.

use super::window::{Fields, Window};
use super::{Content, Span};

/// Avro names its codec in a map in its header, as text.
pub fn avro(window: Window) -> Option<Span> {
    const AVRO_CODEC_KEY: &[u8] = b"avro.codec";
    let head = &window.bytes[..window.bytes.len().min(64 << 10)];
    let at = head.windows(AVRO_CODEC_KEY.len()).position(|bytes| bytes == AVRO_CODEC_KEY)?;
    let mut fields = Fields(&head[at + AVRO_CODEC_KEY.len()..]);
    // The length is zigzag-encoded, so it is doubled.
    let length = usize::from(fields.byte()? / 2);
    let codec = fields.take(length)?;
    let start = (at + AVRO_CODEC_KEY.len() + 1 + length) as u64;
    (codec != b"null").then(|| Span::new(start, u64::MAX - start, Content::Compressed)).flatten()
}

/// ORC ends with a postscript, and the last byte is its length. The postscript's second field is the codec; 0 means
/// none. The window must contain the whole file.
pub fn orc(window: Window) -> Option<Span> {
    let (last, rest) = window.bytes.split_last()?;
    let mut script = Fields(&rest[rest.len().checked_sub(usize::from(*last))?..]);
    script.0.ends_with(b"ORC").then_some(())?;
    loop {
        match script.byte()? {
            0x10 => {
                return if script.byte()? > 0 {
                    Span::new(3, rest.len() as u64 - 3, Content::Compressed)
                } else {
                    None
                };
            }
            0x08 => while script.byte()? >= 0x80 {},
            _ => return None,
        }
    }
}
