//! Ranges of bytes, as commands take them.

/// The bytes A up to, not including, B.
#[derive(Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub end: Option<u64>,
}

/// Returns the first byte of a range and its end, if it has one. Without a range, these are of all bytes.
pub fn bounds(range: Option<&Range>) -> (u64, Option<u64>) {
    range.map_or((0, None), |range| (range.start, range.end))
}

pub fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || format!("{text:?} is not a range; write it as 100-200, or 100- up to the end");
    let (start, end) = text.split_once('-').ok_or_else(wrong)?;
    let start = start.parse().map_err(|_| wrong())?;
    let end = if end.is_empty() { None } else { Some(end.parse().map_err(|_| wrong())?) };
    if end.is_some_and(|end| end < start) { Err(wrong()) } else { Ok(Range { start, end }) }
}
