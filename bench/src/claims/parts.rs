//! Records by their fields: what the codec `fields` adds, from the oracle's table.

use anyhow::Result;
use terrace_codec::{CodecId, Encoding};

use crate::oracle::{Cost, Oracle};
use crate::row::{Better, Row};

/// The kind of the files with particles: records of 32 bytes.
const PARTICLE_KIND: &str = "pic aos32";
/// The encoding of particles whose speeds are shown, and the best one of similar speed without fields.
const COMPARED_NAMES: [&str; 2] = ["fields-r32", "shuffle32+zstd-3"];

pub fn run() -> Result<Vec<Row>> {
    let Some(oracle) = Oracle::get()? else { return Ok(Vec::new()) };
    let all = stored(oracle, |_| true);
    let particles = stored(oracle, |kind| kind == PARTICLE_KIND);
    if particles.raw == 0.0 {
        eprintln!("skipped: TERRACE_DATA has no particles (pic/*.aos32)");
        return Ok(Vec::new());
    }
    let mut rows = vec![
        Row::new("parts", "particles of VPIC: ratio", particles.raw / particles.with, "x")
            .beside(particles.raw / particles.without, Better::Higher)
            .goal(1.55, Better::Higher)
            .details("the best encoding for each file, beside the best one without fields"),
        Row::new("parts", "all real files: bytes that fields save", 100.0 * (1.0 - all.with / all.without), "%")
            .details("the best encoding for each file, with fields and without them"),
    ];
    let [fields, other] = COMPARED_NAMES.map(|name| name.parse::<Encoding>());
    let (fields, other) = (cost(oracle, fields?), cost(oracle, other?));
    let speed = |seconds: f64| particles.raw / seconds / 1e6;
    let named = |what: &str| format!("particles of VPIC: {what}");
    let details = format!("`{}` beside `{}`", COMPARED_NAMES[0], COMPARED_NAMES[1]);
    rows.extend(
        [
            Row::new("parts", named("encoded"), speed(fields.encode), "MB/s")
                .beside(speed(other.encode), Better::Higher),
            Row::new("parts", named("decoded"), speed(fields.decode), "MB/s")
                .beside(speed(other.decode), Better::Higher),
        ]
        .map(|row| row.details(&details)),
    );
    Ok(rows)
}

/// Bytes of some files.
#[derive(Default)]
struct Bytes {
    raw: f64,
    /// Stored by the best encoding of each file.
    with: f64,
    /// Stored by the best one without fields.
    without: f64,
}

fn stored(oracle: &Oracle, is_wanted: impl Fn(&str) -> bool) -> Bytes {
    let mut sum = Bytes::default();
    for (file, pieces) in oracle.files.iter().zip(&oracle.table.costs).filter(|(file, _)| is_wanted(&file.kind)) {
        let best = |is_candidate: &dyn Fn(&Encoding) -> bool| {
            let encodings = oracle.table.encodings.iter().enumerate().filter(|(_, encoding)| is_candidate(encoding));
            let sizes = encodings.map(|(at, _)| pieces.iter().map(|costs| costs[at].stored).sum::<usize>());
            sizes.min().unwrap_or_default() as f64
        };
        sum.raw += file.bytes.len() as f64;
        sum.with += best(&|_| true);
        sum.without += best(&|encoding| encoding.codec != CodecId::Fields);
    }
    sum
}

/// Returns the cost of an encoding of the oracle's table on all particles.
fn cost(oracle: &Oracle, encoding: Encoding) -> Cost {
    let files = oracle.files.iter().zip(&oracle.table.costs).filter(|(file, _)| file.kind == PARTICLE_KIND);
    let at = oracle.table.encodings.iter().position(|known| *known == encoding);
    files
        .flat_map(|(_, pieces)| pieces)
        .filter_map(|costs| costs.get(at?))
        .fold(Cost::default(), |sum, cost| sum + *cost)
}
