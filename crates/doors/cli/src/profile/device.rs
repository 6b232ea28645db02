//! How quick a directory is: a file is written there, made durable, and read back past the page cache. It has no name from
//! the beginning, so nothing is left of it, however this ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use terrace::config::{TargetConfig, TierConfig, TierKind};
use terrace_predict::ProfiledTier;

/// Bytes written and read at a time.
const PIECE: usize = 1 << 20;
/// Bytes written, at most.
const MOST: u64 = 256 << 20;
/// A short read, which tells the latency, and how many of them.
const SHORT: usize = 4096;
const READS: u64 = 32;

/// Measures a target in about this time, and takes what the tier is throttled to into account.
pub fn measure(tier: &TierConfig, target: &TargetConfig, time: Duration) -> io::Result<ProfiledTier> {
    if tier.kind != TierKind::Directory {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "only directories are; the store learns as it uses it"));
    }
    let found = directory(&target.path, time)?;
    let Some(throttle) = &tier.throttle else { return Ok(found) };
    let slowed = |rate: f64, set: Option<u64>| set.map_or(rate, |set| rate.min(set as f64));
    Ok(ProfiledTier {
        write: slowed(found.write, throttle.write.map(|rate| rate.0)),
        read: slowed(found.read, throttle.read.map(|rate| rate.0)),
        latency: found.latency + throttle.latency.map_or(0.0, |latency| latency.0.as_secs_f64()),
    })
}

/// The worse of two.
pub fn slower(a: ProfiledTier, b: ProfiledTier) -> ProfiledTier {
    ProfiledTier { write: a.write.min(b.write), read: a.read.min(b.read), latency: a.latency.max(b.latency) }
}

fn directory(path: &Path, time: Duration) -> io::Result<ProfiledTier> {
    // A target that no store has used yet is made beside what is there.
    let there = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let name = there.join(format!(".terrace-profile-{}", process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    fs::remove_file(&name)?;
    // No zeros, which some file systems do not store.
    let mut piece: Vec<u8> =
        (0..PIECE as u64 / 8).flat_map(|i| (i ^ 0x5555).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
    let (mut written, start) = (0, Instant::now());
    while written < MOST && start.elapsed() < time / 2 {
        piece[..8].copy_from_slice(&written.to_le_bytes());
        file.write_all_at(&piece, written)?;
        written += PIECE as u64;
    }
    file.sync_data()?;
    let write = written as f64 / start.elapsed().as_secs_f64();
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let latency = latency(&file, written)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let (mut read, start) = (0, Instant::now());
    while read < written && start.elapsed() < time / 2 {
        file.read_exact_at(&mut piece, read)?;
        read += PIECE as u64;
    }
    Ok(ProfiledTier { write, read: read as f64 / start.elapsed().as_secs_f64(), latency })
}

/// The median time of short reads, spread over the file.
fn latency(file: &File, length: u64) -> io::Result<f64> {
    let mut short = [0; SHORT];
    let mut times = Vec::new();
    for number in 0..READS {
        let start = Instant::now();
        file.read_exact_at(&mut short, (number * 7919 % READS) * (length - SHORT as u64) / READS)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
