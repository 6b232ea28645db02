//! Creating, looking up, listing and removing files.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Bare, Mounted};
use crate::row::{Better, Row};
use crate::timing::{median, time};

const FILE_COUNT: usize = 10_000;
const ROUND_COUNT: usize = 3;

pub fn run(mounted: &Mounted, bare: &Bare) -> Result<Vec<Row>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUND_COUNT {
        ours.push(rates(&mounted.at.join(format!("names{round}")))?);
        theirs.push(rates(&bare.at.join(format!("names{round}")))?);
    }
    let row = |at: usize, what: &str| {
        let middle = |all: &[[f64; 4]]| median(all.iter().map(|rates| rates[at]));
        Row::new("mount", format!("{what}, beside a bare FUSE proxy on tmpfs"), middle(&ours), "1/s")
            .beside(middle(&theirs), Better::Higher)
            .details(format!("{FILE_COUNT} files in a directory, one after the other, middle of {ROUND_COUNT} rounds"))
    };
    Ok(vec![row(0, "create"), row(1, "stat"), row(2, "readdir, names"), row(3, "remove")])
}

/// Returns the files per second of each operation.
fn rates(folder: &Path) -> Result<[f64; 4]> {
    fs::create_dir(folder)?;
    let path = |at: usize| folder.join(format!("file-{at:05}"));
    let all = |run: &dyn Fn(usize) -> Result<()>| Ok::<_, anyhow::Error>(time(|| (0..FILE_COUNT).try_for_each(run))?.0);
    let created = all(&|at| Ok(File::create(path(at)).map(drop)?))?;
    // The kernel caches attributes and names for at most a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let looked = all(&|at| Ok(fs::metadata(path(at)).map(drop)?))?;
    let (listed, count) = time(|| Ok(fs::read_dir(folder)?.count()))?;
    ensure!(count == FILE_COUNT, "{count} names of {FILE_COUNT}");
    let removed = all(&|at| Ok(fs::remove_file(path(at))?))?;
    fs::remove_dir(folder)?;
    Ok([created, looked, listed, removed].map(|seconds| FILE_COUNT as f64 / seconds))
}
