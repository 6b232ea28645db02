//! File formats, recognised by their first bytes.

/// The kind of file that bytes are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// HDF5, including NetCDF 4.
    Hdf5,
    /// NetCDF 1 to 3, with big-endian numbers.
    NetCdf,
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// Apache Avro.
    Avro,
    /// Apache Arrow's file format.
    Arrow,
    /// An array of NumPy.
    Npy,
    /// FITS, with big-endian numbers.
    Fits,
    /// An ELF program or library.
    Elf,
    /// A file that is compressed as a whole: an image, sound, an archive.
    Compressed,
    /// JSON.
    Json,
    /// Lines with equal numbers of fields.
    Csv,
    /// Other text in UTF-8.
    Text,
    /// None of these, or the beginning is missing.
    Unknown,
}

/// The first bytes of formats.
const FILE_SIGNATURES: &[(&[u8], Format)] = &[
    (b"\x89HDF\r\n\x1a\n", Format::Hdf5),
    (b"CDF\x01", Format::NetCdf),
    (b"CDF\x02", Format::NetCdf),
    (b"CDF\x05", Format::NetCdf),
    (b"PAR1", Format::Parquet),
    (b"ORC", Format::Orc),
    (b"Obj\x01", Format::Avro),
    (b"ARROW1\0\0", Format::Arrow),
    (b"\x93NUMPY", Format::Npy),
    (b"SIMPLE  =", Format::Fits),
    (b"\x7fELF", Format::Elf),
    (b"\x89PNG\r\n\x1a\n", Format::Compressed),
    (b"\xff\xd8\xff", Format::Compressed),
    (b"GIF87a", Format::Compressed),
    (b"GIF89a", Format::Compressed),
    (b"fLaC", Format::Compressed),
    (b"\x1f\x8b\x08", Format::Compressed),
    (b"\x28\xb5\x2f\xfd", Format::Compressed),
    (b"\xfd7zXZ\0", Format::Compressed),
    (b"BZh", Format::Compressed),
    (b"\x04\x22\x4d\x18", Format::Compressed),
    (b"7z\xbc\xaf\x27\x1c", Format::Compressed),
    (b"PK\x03\x04", Format::Compressed),
];

/// At most this many bytes of text are examined.
const MAX_TEXT_BYTES: usize = 4096;
/// This many lines must have equal numbers of fields.
const MIN_EQUAL_LINES: usize = 3;

impl Format {
    /// Returns the format of a file that begins with `head`; a few KiB suffice.
    pub fn of(head: &[u8]) -> Format {
        let signed = FILE_SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature));
        let text = text(&head[..head.len().min(MAX_TEXT_BYTES)]);
        match (signed, text) {
            // Some signatures are letters that a word may begin with.
            (Some((signature, format)), text) if text.is_none() || signature.len() > 4 => *format,
            (_, Some(text)) => of_text(text),
            _ => Format::Unknown,
        }
    }

    /// Returns whether it is a text format.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Json | Format::Csv | Format::Text)
    }
}

/// Returns the bytes as text if they are UTF-8; a character may be cut at the end.
fn text(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&head[..e.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b');
    (text.len() >= 16 && !text.contains(control)).then_some(text)
}

fn of_text(text: &str) -> Format {
    if is_json(text) {
        Format::Json
    } else if ['\t', ',', ';', '|'].iter().any(|separator| is_table(text, *separator)) {
        Format::Csv
    } else {
        Format::Text
    }
}

/// Returns whether text begins like JSON: a bracket, and a character that may follow it.
fn is_json(text: &str) -> bool {
    let mut tokens = text.chars().filter(|c| !c.is_whitespace());
    match (tokens.next(), tokens.next()) {
        (Some('{'), Some('"')) => text.contains("\":") || text.contains("\" :"),
        (Some('['), Some(next)) => "{[\"-0123456789".contains(next) && text.contains(','),
        _ => false,
    }
}

fn is_table(text: &str, separator: char) -> bool {
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).take(8);
    let fields = |line: &str| line.matches(separator).count();
    let Some(first) = lines.next().map(fields) else { return false };
    let mut same = 1;
    // Text between quotes may hold separators, so one line may differ.
    let differ = lines
        .filter(|line| {
            fields(line) != first || {
                same += 1;
                false
            }
        })
        .count();
    first > 0 && same >= MIN_EQUAL_LINES && differ <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_their_first_bytes() {
        for (head, format) in [
            (&b"\x89HDF\r\n\x1a\n\0\0"[..], Format::Hdf5),
            (b"CDF\x02\0\0\0\0", Format::NetCdf),
            (b"PAR1\x15\x04", Format::Parquet),
            (b"\x93NUMPY\x01\0", Format::Npy),
            (b"\x1f\x8b\x08\0\0\0", Format::Compressed),
            (b"{\"type\": \"FeatureCollection\", ", Format::Json),
            (b"[1.5, 2.5, 3.5, 4.5, 5.5]", Format::Json),
            (b"a,b\n1,2\n3,4\n5,6\n7,", Format::Csv),
            (b"a\tb,c\n1\t2\n3\t4\n5\t6\n7,", Format::Csv),
            (b"It was the best of times, it was the worst\nof times, it was\n", Format::Text),
            ("Größe und Maß, gemessen".as_bytes(), Format::Text),
            (b"", Format::Unknown),
            (b"short", Format::Unknown),
            (b"ORC\x11\0\0\x0a", Format::Orc),
            (b"ORCHESTRAL MUSIC, in two volumes", Format::Text),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", Format::Unknown),
        ] {
            assert_eq!(Format::of(head), format, "{:?}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_character_may_be_cut() {
        let text = "ä".repeat(MAX_TEXT_BYTES);
        assert_eq!(Format::of(&text.as_bytes()[..MAX_TEXT_BYTES + 1]), Format::Text);
        assert_eq!(Format::of(format!(" {text}").as_bytes()), Format::Text);
    }
}
