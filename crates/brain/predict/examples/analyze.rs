//! Analyzes files: `cargo run -p terrace-predict --example analyze FILE...`. For each file it prints the format, the
//! analysis of the first MiB, the share that the file's own metadata describes, and the time of the analysis relative
//! to reading at 500 MB/s.

use std::collections::BTreeMap;
use std::error::Error;

use terrace_predict::analyze::{Analysis, Content, Format, Metadata};
use terrace_system::clock::thread_seconds;

const BLOCK_BYTES: usize = 1 << 20;
const BYTES_PER_SECOND: f64 = 500e6;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let head = &bytes[..bytes.len().min(BLOCK_BYTES)];
        let start = thread_seconds();
        let analysis = Analysis::of(head, None)?;
        let took = thread_seconds() - start;
        let format = Format::of(head);
        let mut described: BTreeMap<String, u64> = BTreeMap::new();
        let (mut base, mut metadata) = (0, Metadata::new(format));
        for block in bytes.chunks(BLOCK_BYTES) {
            for span in metadata.parse(base, block) {
                let name = match span.content {
                    Content::Numbers(e) => format!("{}{}", if e.big_endian { ">" } else { "" }, e.element.name()),
                    Content::Compressed => "compressed".to_owned(),
                };
                *described.entry(name).or_default() += span.end.min(bytes.len() as u64).saturating_sub(span.start);
            }
            base += block.len() as u64;
        }
        let described: Vec<String> =
            described.iter().map(|(n, b)| format!("{n} {:.1}%", 100.0 * *b as f64 / bytes.len() as f64)).collect();
        let elements = analysis.elements.map_or("-".to_owned(), |e| e.element.name().to_owned());
        let family = analysis.distribution.map_or("-".to_owned(), |d| format!("{d:?}").to_lowercase());
        println!(
            "{path}: {format:?}, {elements}, {family}, {:.2} bits; {}; {:.0} us, {:.1} % of reading",
            analysis.entropy,
            described.join(", "),
            took * 1e6,
            100.0 * took * BYTES_PER_SECOND / head.len() as f64
        );
    }
    Ok(())
}
