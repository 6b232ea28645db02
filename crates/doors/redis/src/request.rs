//! Requests: arrays of bulk strings, or lines of words.
//!
//! Published parsers of RESP accept arrays in arrays, by recursion without a limit, so a short request can exhaust the stack. They
//! parse a request from its beginning whenever bytes arrive, and know no lines. Requests need less: this reader never looks at
//! a byte twice, and takes memory only for bytes that have arrived.

use crate::input_buffer::InputBuffer;

/// A longer line, of words or with a length, ends the connection.
const MAX_LINE_BYTES: usize = 64 << 10;
/// The most words of a request.
const MAX_WORDS: usize = 1 << 20;
/// The longest word, which is also the longest value.
pub const MAX_WORD_BYTES: usize = 512 << 20;
/// The most bytes of a request.
const MAX_REQUEST_BYTES: usize = 1 << 30;
/// The same limits for a client without the password: it must not fill the memory.
const MAX_STRANGER_WORDS: usize = 10;
const MAX_STRANGER_WORD_BYTES: usize = 16 << 10;

/// A request that is no request. It ends the connection.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub struct Malformed(String);

/// The words of a request. The first is the name of a command.
pub type Words = Vec<Vec<u8>>;

/// Takes requests out of a stream of bytes.
#[derive(Debug, Default)]
pub struct RequestReader {
    input: InputBuffer,
    /// The words of the request that is being read.
    words: Words,
    word_bytes: usize,
    /// How many of its words are missing.
    missing: usize,
    /// The length of the next word, once it is known.
    length: Option<usize>,
}

impl RequestReader {
    /// Takes bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// The number of bytes that were not read as requests yet.
    pub fn buffered_bytes(&self) -> usize {
        self.input.rest().len()
    }

    /// The memory that the bytes and words take which have arrived.
    pub fn held_bytes(&self) -> usize {
        let arrived = if self.missing > 0 { self.word_bytes - self.length.unwrap_or_default() } else { 0 };
        self.input.held_bytes() + arrived + self.words.capacity() * size_of::<Vec<u8>>()
    }

    /// Returns the next request, or none if its end has not arrived. `is_trusted` clients may send long ones.
    ///
    /// # Errors
    /// [`Malformed`] if no request can begin like this. Nothing more can be read then.
    pub fn next(&mut self, is_trusted: bool) -> Result<Option<Words>, Malformed> {
        loop {
            if self.missing > 0 {
                return Ok(self.next_words(is_trusted)?.then(|| std::mem::take(&mut self.words)));
            }
            match self.input.rest().first() {
                Some(b'*') => {
                    let Some(count) = self.number("mbulk count string")? else { return Ok(None) };
                    let count = count.filter(|count| *count <= MAX_WORDS as i64);
                    let count = count.ok_or_else(|| malformed("invalid multibulk length"))?;
                    self.missing = usize::try_from(count).unwrap_or_default();
                    if !is_trusted && self.missing > MAX_STRANGER_WORDS {
                        return Err(malformed("unauthenticated multibulk length"));
                    }
                    self.word_bytes = 0;
                }
                Some(_) => {
                    let Some(line) = self.line("inline request")? else { return Ok(None) };
                    let words = split_words(line).ok_or_else(|| malformed("unbalanced quotes in request"))?;
                    if !words.is_empty() {
                        return Ok(Some(words));
                    }
                }
                None => {
                    self.input.release();
                    return Ok(None);
                }
            }
        }
    }

    /// Reads words, and returns whether none is missing.
    fn next_words(&mut self, is_trusted: bool) -> Result<bool, Malformed> {
        while self.missing > 0 {
            let length = match self.length {
                Some(length) => length,
                None => {
                    match self.input.rest().first() {
                        Some(b'$') => {}
                        Some(other) => return Err(Malformed(format!("expected '$', got '{}'", other.escape_ascii()))),
                        None => {
                            self.input.release();
                            return Ok(false);
                        }
                    }
                    let Some(length) = self.number("bulk count string")? else { return Ok(false) };
                    let length = length.and_then(|length| usize::try_from(length).ok());
                    let length = length.filter(|length| *length <= MAX_WORD_BYTES);
                    let length = length.ok_or_else(|| malformed("invalid bulk length"))?;
                    if !is_trusted && length > MAX_STRANGER_WORD_BYTES {
                        return Err(malformed("unauthenticated bulk length"));
                    }
                    self.word_bytes += length;
                    if self.word_bytes > MAX_REQUEST_BYTES {
                        return Err(malformed("the request is too long"));
                    }
                    self.length = Some(length);
                    length
                }
            };
            let Some(word) = self.input.take(length + 2) else { return Ok(false) };
            self.words.push(word[..length].to_vec());
            self.length = None;
            self.missing -= 1;
        }
        Ok(true)
    }

    /// Reads a line, without its end.
    fn line(&mut self, what: &str) -> Result<Option<&[u8]>, Malformed> {
        self.input.line(MAX_LINE_BYTES).map_err(|_| Malformed(format!("too big {what}")))
    }

    /// Reads a line with a number behind its first byte.
    fn number(&mut self, what: &str) -> Result<Option<Option<i64>>, Malformed> {
        Ok(self.line(what)?.map(|line| std::str::from_utf8(line.get(1..)?).ok()?.parse().ok()))
    }
}

fn malformed(reason: &str) -> Malformed {
    Malformed(reason.to_owned())
}

/// Splits a line at spaces. A word may have quotes around it: `"` with escapes, or `'`. Returns none if a quote is not closed.
fn split_words(line: &[u8]) -> Option<Words> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (word, after) = split_word(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Some(words)
}

fn split_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' | b'\'' => {
                rest = unquote(byte, rest, &mut word)?;
                // A closing quote ends the word.
                return rest.first().is_none_or(u8::is_ascii_whitespace).then_some((word, rest));
            }
            _ if byte.is_ascii_whitespace() => break,
            _ => word.push(byte),
        }
    }
    Some((word, rest))
}

/// Reads up to the closing quote.
fn unquote<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match (byte, rest) {
            (b'\\', [b'x', high, low, after @ ..])
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
                word.push(digit(*high) << 4 | digit(*low));
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            (b'\\', [b'\'', after @ ..]) if quote == b'\'' => {
                word.push(b'\'');
                rest = after;
            }
            _ if byte == quote => return Some(rest),
            _ => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(pieces: &[&[u8]]) -> Result<Vec<Words>, Malformed> {
        let (mut reader, mut found) = (RequestReader::default(), Vec::new());
        for piece in pieces {
            reader.extend(piece);
            while let Some(words) = reader.next(true)? {
                found.push(words);
            }
        }
        Ok(found)
    }

    fn encode(words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    proptest! {
        #[test]
        fn requests_arrive_whole_however_they_are_cut(
            requests in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..5), 0..5),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read_all(&pieces), Ok(requests));
        }

        #[test]
        fn any_bytes_are_requests_or_an_error(
            parts in prop::collection::vec(
                prop_oneof!["[*$]-?[0-9]{0,10}\r\n", "\\*1\r\n", "[a-z\"' \\\\x]{0,9}\r?\n", any::<String>()], 0..9
            ),
        ) {
            let _ = read_all(&[parts.concat().as_bytes()]);
        }
    }

    #[test]
    fn lines_are_split_into_words() {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Words>();
        let lines = b"\r\n  ping \r\nset 'a b' \"\\x41\\n\\\"\"\nget ''\r\n";
        let expected = [words(&["ping"]), words(&["set", "a b", "A\n\""]), words(&["get", ""])];
        assert_eq!(read_all(&[lines]), Ok(expected.to_vec()));
        for wrong in ["set \"a\n", "get 'a'b\r\n"] {
            assert_eq!(read_all(&[wrong.as_bytes()]), Err(malformed("unbalanced quotes in request")));
        }
    }

    #[test]
    fn lengths_beyond_the_limits_are_refused_before_anything_is_allocated() {
        for (request, reason) in [
            ("*3000000000\r\n", "invalid multibulk length"),
            ("*x\r\n", "invalid multibulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n*1\r\n", "expected '$', got '*'"),
        ] {
            assert_eq!(read_all(&[request.as_bytes()]), Err(malformed(reason)), "{request:?}");
        }
        let mut stranger = RequestReader::default();
        stranger.extend(b"*11\r\n");
        assert_eq!(stranger.next(false), Err(malformed("unauthenticated multibulk length")));
        let endless = vec![b'x'; MAX_LINE_BYTES];
        assert_eq!(read_all(&[&endless]), Err(malformed("too big inline request")));
    }
}
