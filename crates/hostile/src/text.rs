//! Texts: keys, configurations, names and marks in buckets, and declarations of datasets.

use terrace::tier::{LogPiece, OwnerMark, Reach, SyncedNote, marker_text, read_marker_text};
use terrace::{Config, key};
use terrace_datasets::Declared;

pub fn key_samples() -> Vec<Vec<u8>> {
    [b"runs/a.h5".as_slice(), b"a b/\xc3\xa9\xff", b"..a/...", b"a/.\x04.\x03./b\x02\x07\x01", &[b'k'; key::MAX_KEY]]
        .map(Vec::from)
        .into()
}

pub fn parse_key(input: &[u8]) -> bool {
    let (name, prefix) = input.split_at(input.len() / 2);
    for bytes in [input, name, prefix] {
        if key::check(bytes).is_ok() {
            assert!(!bytes.is_empty() && bytes.len() <= key::MAX_KEY);
            assert!(bytes.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")));
        }
        let flat = key::unescape_flat(bytes);
        assert!(flat.is_none_or(|flat| key::escape_flat(&flat) == bytes));
        let _ = (key::show(bytes), key::below(name, bytes));
    }
    key::check(input).is_ok()
}

pub fn configuration_samples() -> Vec<Vec<u8>> {
    let guides = [
        include_str!("../../../docs/guide/encodings.md"),
        include_str!("../../../docs/guide/requirements.md"),
        include_str!("../../../docs/object-targets.md"),
    ];
    let mut samples: Vec<Vec<u8>> = guides.into_iter().flat_map(|guide| blocks(guide, "toml")).collect();
    let has_tiers = |sample: &[u8]| sample.windows(8).any(|text| text == b"[[tier]]");
    for sample in samples.iter_mut().filter(|sample| !has_tiers(sample)) {
        // A part of a configuration. Its rules name this tier.
        sample.extend_from_slice(b"[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['/disk']\n");
    }
    samples
}

pub fn parse_configuration(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let tiers = Config::parse_tiers(&text, "hostile");
    Config::parse(&text, "hostile").is_ok() || tiers.is_ok()
}

pub fn bucket_samples() -> Vec<Vec<u8>> {
    let piece = LogPiece { is_snapshot: true, file: 77, start: 8 << 20 };
    let first = OwnerMark::new("host", 1, None);
    let second = OwnerMark::new("host", 2, Some(&first));
    vec![
        piece.name().into_bytes(),
        marker_text(5, 3).into_bytes(),
        SyncedNote::text(Reach { sequence: 1234, record: (1235, 9) }).into_bytes(),
        first.bytes(),
        second.bytes(),
    ]
}

pub fn parse_bucket(input: &[u8]) -> bool {
    let piece = LogPiece::parse(&String::from_utf8_lossy(input));
    let marker = read_marker_text(input);
    assert!(marker.is_none_or(|(store, number)| marker_text(store, number).as_bytes() == input));
    let (mark, other) = (OwnerMark::read(input), OwnerMark::new("host", 2, None));
    // A damaged mark is not taken for one that may be replaced.
    assert!(!other.may_replace(&mark) || mark.bytes().len() < other.bytes().len());
    let _ = (mark.may_replace(&other), mark.host());
    piece.is_some() || marker.is_some() || SyncedNote::parse(input).is_some() || mark.is_whole()
}

pub fn declaration_samples() -> Vec<Vec<u8>> {
    let texts = [include_str!("../../../docs/guide/views.md"), include_str!("../../../docs/dataset-language.md")];
    texts.into_iter().flat_map(|text| blocks(text, "dataset")).collect()
}

pub fn parse_declaration(input: &[u8]) -> bool {
    Declared::parse(&String::from_utf8_lossy(input)).is_ok()
}

/// Returns the code blocks of a kind in a Markdown text.
fn blocks(text: &str, kind: &str) -> Vec<Vec<u8>> {
    let opening = format!("```{kind}\n");
    let behind = text.split(&opening).skip(1);
    behind.filter_map(|rest| Some(rest.split_once("```")?.0.as_bytes().to_vec())).collect()
}
