//! Ratio and speed of every encoding, as a table in Markdown: `TERRACE_DATA=DIR cargo run -p terrace-codec --example
//! speeds [PAGE]`. With a PAGE such as docs/codecs.md the table there is replaced.
//!
//! A column for each folder of `TERRACE_DATA`, of each of whose files a block out of the middle is taken; without it, for
//! each kind of made-up data. Thread time, the best of three runs unless they are slow.

#[path = "../tests/data/mod.rs"]
mod data;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch, decode, encode};

const BLOCK_BYTES: usize = 1 << 20;
const KIND_NAMES: [&str; 8] =
    ["random", "constant", "f32 field", "f64 ramp", "i32 ramp", "i64 times", "words", "records"];
/// Runs slower than this, in seconds, are done once.
const SLOW_RUN_SECONDS: f64 = 0.05;
/// The table stands between these lines of a page.
const TABLE_MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- end -->\n"];

struct Column {
    name: String,
    blocks: Vec<Vec<u8>>,
}

/// Bytes, and seconds.
#[derive(Default)]
struct Sum {
    raw: usize,
    stored: usize,
    there: f64,
    back: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let columns = match std::env::var_os("TERRACE_DATA") {
        Some(root) => folders(Path::new(&root))?,
        None => made(),
    };
    let table = table(&columns)?;
    let Some(page) = std::env::args_os().nth(1) else {
        print!("{table}");
        return Ok(());
    };
    let text = fs::read_to_string(&page)?;
    let [before, after] = TABLE_MARKS.map(|mark| text.split_once(mark));
    let ((before, _), (_, after)) = before.zip(after).ok_or("the page has no marks for the table")?;
    fs::write(&page, format!("{before}{}{table}{}{after}", TABLE_MARKS[0], TABLE_MARKS[1]))?;
    Ok(())
}

fn made() -> Vec<Column> {
    let column = |(kind, name)| Column { name: String::from(name), blocks: vec![data::bytes(kind, BLOCK_BYTES, 1)] };
    (0u8..).zip(KIND_NAMES).map(column).collect()
}

fn folders(root: &Path) -> Result<Vec<Column>, Box<dyn Error>> {
    let mut columns = Vec::new();
    for folder in sorted(root)?.into_iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let block = |path: &PathBuf| {
            let mut bytes = fs::read(path)?;
            // At a multiple of every width.
            let start = bytes.len().saturating_sub(BLOCK_BYTES) / 2 / 4096 * 4096;
            bytes.drain(..start);
            bytes.truncate(BLOCK_BYTES);
            Ok::<_, std::io::Error>(bytes)
        };
        columns.push(Column { name, blocks: sorted(&folder)?.iter().map(block).collect::<Result<_, _>>()? });
    }
    Ok(columns)
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

fn table(columns: &[Column]) -> Result<String, Box<dyn Error>> {
    let names: Vec<&str> = columns.iter().map(|column| &column.name[..]).collect();
    let mut table = format!("| encoding | encodes | decodes | {} |\n", names.join(" | "));
    writeln!(table, "| --- | --- | --- |{}", " --- |".repeat(columns.len()))?;
    let mut scratch = Scratch::default();
    for &encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS) {
        let (mut all, mut cells) = (Sum::default(), String::new());
        for column in columns {
            let (raw, stored) = (all.raw, all.stored);
            for block in &column.blocks {
                run(encoding, block, &mut scratch, &mut all)?;
            }
            write!(cells, " {:.2} |", (all.raw - raw) as f64 / (all.stored - stored) as f64)?;
        }
        let speed = |seconds: f64| all.raw as f64 / seconds.max(1e-9) / 1e6;
        eprintln!("{encoding}");
        match encoding {
            Encoding::NONE => writeln!(table, "| `{encoding}` | | |{cells}")?,
            _ => writeln!(table, "| `{encoding}` | {:.0} | {:.0} |{cells}", speed(all.there), speed(all.back))?,
        }
    }
    Ok(table)
}

/// Encodes and decodes a block, and compares.
fn run(encoding: Encoding, raw: &[u8], scratch: &mut Scratch, sum: &mut Sum) -> Result<(), Box<dyn Error>> {
    let (mut out, mut back) = (Vec::new(), vec![0; raw.len()]);
    let (mut there, mut again, mut length) = (f64::INFINITY, f64::INFINITY, raw.len());
    for _ in 0..3 {
        let start = seconds();
        let made = encode(encoding, raw, &mut out, scratch)?;
        there = there.min(seconds() - start);
        let (with, stored) = made.map_or((Encoding::NONE, raw), |_| (encoding, &out[..]));
        length = stored.len();
        let start = seconds();
        decode(with, stored, &mut back, scratch)?;
        again = again.min(seconds() - start);
        if back != raw {
            return Err(format!("{encoding} gives back other bytes").into());
        }
        if there + again > SLOW_RUN_SECONDS {
            break;
        }
    }
    sum.raw += raw.len();
    sum.stored += length;
    sum.there += there;
    sum.back += again;
    Ok(())
}

/// Seconds that this thread has worked for.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
