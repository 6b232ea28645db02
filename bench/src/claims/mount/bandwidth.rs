//! Files of random bytes, written and read in requests of 1 MiB.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};

use super::{Bare, Mounted, PAIR_COUNT};
use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::timing::{median, time};

const REQUEST_BYTES: usize = 1 << 20;
/// The numbers of requests on disk and on tmpfs.
const ON_DISK: usize = 384;
const IN_RAM: usize = 192;
/// The number of uncached reads in each round. There are several because the speed of a disk varies.
const COLD_READS_PER_ROUND: usize = 3;

pub fn beside_the_file_system(place: &Place, mounted: &Mounted) -> Result<Vec<Row>> {
    let plain = place.disk().join("plain");
    fs::create_dir(&plain)?;
    let noise = random_bytes(64 * REQUEST_BYTES, 7);
    let mut pairs: [Vec<[f64; 2]>; 3] = Default::default();
    for round in 0..PAIR_COUNT {
        let (ours, theirs) = (mounted.at.join("file"), plain.join("file"));
        let wrote = alternating(round, &ours, &theirs, |path| write(path, &noise, ON_DISK, true))?;
        for again in 0..COLD_READS_PER_ROUND {
            let cold = alternating(round + again, &ours, &theirs, |path| {
                forget(if path == ours { &mounted.tier } else { &plain })?;
                read(path, ON_DISK)
            })?;
            pairs[1].push(cold);
        }
        let warm = alternating(round, &ours, &theirs, |path| read(path, ON_DISK))?;
        pairs[0].push(wrote);
        pairs[2].push(warm);
        fs::remove_file(&ours)?;
        fs::remove_file(&theirs)?;
        mounted.files.store().reap_now()?;
    }
    let [wrote, cold, warm] = &pairs;
    let details = format!("{ON_DISK} MiB of noise on the disk, one raw replica");
    let beside = "beside the plain file system";
    Ok(vec![
        share(format!("write 1 MiB requests and fsync, {beside}"), wrote, &details).goal(0.6, Better::Higher),
        share(format!("read 1 MiB requests, nothing cached, {beside}"), cold, &details).goal(0.6, Better::Higher),
        share(format!("read 1 MiB requests, all in the page cache, {beside}"), warm, &details),
    ])
}

pub fn beside_a_proxy(mounted: &Mounted, bare: &Bare) -> Result<Vec<Row>> {
    let noise = random_bytes(64 * REQUEST_BYTES, 9);
    let (mut wrote, mut got) = (Vec::new(), Vec::new());
    for round in 0..PAIR_COUNT {
        let (ours, theirs) = (mounted.at.join("file"), bare.at.join("file"));
        wrote.push(alternating(round, &ours, &theirs, |path| write(path, &noise, IN_RAM, false))?);
        got.push(alternating(round, &ours, &theirs, |path| read(path, IN_RAM))?);
        fs::remove_file(&ours)?;
        fs::remove_file(&theirs)?;
        mounted.files.store().reap_now()?;
    }
    let details = format!("{IN_RAM} MiB of noise on tmpfs, one raw replica");
    let beside = "on tmpfs, beside a bare FUSE proxy there";
    Ok(vec![
        share(format!("write 1 MiB requests {beside}"), &wrote, &details).goal(0.8, Better::Higher),
        share(format!("read 1 MiB requests {beside}"), &got, &details).goal(0.8, Better::Higher),
    ])
}

/// Measures a pair of speeds, ours first in the result. The sides take turns in going first.
fn alternating(round: usize, ours: &Path, theirs: &Path, run: impl Fn(&Path) -> Result<f64>) -> Result<[f64; 2]> {
    if round.is_multiple_of(2) {
        let ours = run(ours)?;
        Ok([ours, run(theirs)?])
    } else {
        let theirs = run(theirs)?;
        Ok([run(ours)?, theirs])
    }
}

/// Makes a row of the median share of the other's speed, with both median speeds.
fn share(what: String, pairs: &[[f64; 2]], details: &str) -> Row {
    let (ours, theirs) = (median(pairs.iter().map(|pair| pair[0])), median(pairs.iter().map(|pair| pair[1])));
    let shares: Vec<String> = pairs.iter().map(|[ours, theirs]| format!("{:.2}", ours / theirs)).collect();
    let share = median(pairs.iter().map(|[ours, theirs]| ours / theirs));
    let details = format!(
        "{ours:.0} MB/s to {theirs:.0} MB/s; {details}; middle of {} pairs: {}",
        pairs.len(),
        shares.join(", ")
    );
    Row::new("mount", what, share, "of its speed").details(details)
}

fn write(path: &Path, noise: &[u8], requests: usize, sync: bool) -> Result<f64> {
    let seconds = time(|| {
        let mut file = File::create(path)?;
        for at in 0..requests {
            let from = at * REQUEST_BYTES % noise.len();
            file.write_all(&noise[from..from + REQUEST_BYTES])?;
        }
        if sync {
            file.sync_all()?;
        }
        Ok(())
    })?;
    Ok(speed(requests, seconds.0))
}

fn read(path: &Path, requests: usize) -> Result<f64> {
    let mut buffer = vec![0; REQUEST_BYTES];
    let seconds = time(|| {
        let mut file = File::open(path)?;
        for _ in 0..requests {
            file.read_exact(&mut buffer)?;
        }
        Ok(())
    })?;
    Ok(speed(requests, seconds.0))
}

fn speed(requests: usize, seconds: f64) -> f64 {
    (requests * REQUEST_BYTES) as f64 / 1e6 / seconds
}

/// Drops a folder's files from the page cache.
fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            let file = File::open(&path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
