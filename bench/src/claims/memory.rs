//! The memory use of the command line while it puts and gets a large file.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::place::{Place, smooth_floats};
use crate::row::{Better, PageRow, Row};

const OBJECT_BYTES: u64 = 3 << 30;

pub const PAGE_ROWS: &[PageRow] =
    &[PageRow::made("memory", "put a 3 GiB file", "Memory that putting a file of 3 GiB takes")];

pub fn run() -> Result<Vec<Row>> {
    let terrace = std::env::current_exe()?.with_file_name("terrace");
    ensure!(terrace.exists(), "{} is not there; `cargo build` makes it", terrace.display());
    let place = Place::new()?;
    let store = place.store("store", 1)?;
    let dir = store.dir().to_owned();
    drop(store);
    let (source, back) = (place.disk().join("source.f64"), place.disk().join("back.f64"));
    let mut file = File::create(&source)?;
    let block = smooth_floats(16 << 20, 9);
    for _ in 0..OBJECT_BYTES / block.len() as u64 {
        file.write_all(&block)?;
    }
    drop(file);
    let put = peak(Command::new(&terrace).arg("--store").arg(&dir).arg("put").arg(&source).arg("large.f64"))?;
    let get = peak(Command::new(&terrace).arg("--store").arg(&dir).args(["get", "large.f64"]).arg(&back))?;
    ensure!(same(&source, &back)?, "the bytes differ");
    let row = |what: &str, peak: u64| {
        Row::new("memory", what, peak as f64 / (1 << 20) as f64, "MiB")
            .goal(200.0, Better::Lower)
            .details("peak anonymous memory of the command; 2 replicas; bytes compared")
    };
    Ok(vec![row("put a 3 GiB file", put), row("get it back", get)])
}

/// Runs a command. Returns its peak of anonymous memory in bytes.
pub fn peak(command: &mut Command) -> Result<u64> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(ended) = child.try_wait()? {
            ensure!(ended.success(), "{command:?} ended with {ended}");
            return Ok(peak);
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        if let Some(line) = text.lines().find_map(|l| l.strip_prefix("RssAnon:")) {
            let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("RssAnon")?;
            peak = peak.max(kib << 10);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn same(a: &Path, b: &Path) -> Result<bool> {
    Ok(Command::new("cmp").arg("--silent").arg(a).arg(b).status()?.success())
}
