//! Measures the speed of a directory: writes a file, syncs it, and reads it back past the page cache. The file never has a name, so
//! nothing remains even after a crash.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use terrace::config::{TargetConfig, TierConfig};
use terrace_predict::ProfiledTier;

/// The size of one write or read.
const PIECE_BYTES: usize = 1 << 20;
/// The largest number of bytes written.
const MAX_WRITTEN_BYTES: u64 = 256 << 20;
/// The size and number of short reads, which measure the latency.
const SHORT_READ_BYTES: usize = 4096;
const SHORT_READ_COUNT: u64 = 32;

/// Measures a target in about this time, and accounts for the tier's throttle.
pub fn measure(tier: &TierConfig, target: &TargetConfig, time: Duration) -> io::Result<ProfiledTier> {
    // Only a target of ordinary files is as fast as the file system that it lies on.
    if !tier.kind.capabilities().plain_files {
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

/// Returns the worse of two measurements, value by value.
pub fn slower(a: ProfiledTier, b: ProfiledTier) -> ProfiledTier {
    ProfiledTier { write: a.write.min(b.write), read: a.read.min(b.read), latency: a.latency.max(b.latency) }
}

fn directory(path: &Path, time: Duration) -> io::Result<ProfiledTier> {
    // The directory of an unused target does not exist yet, so measure in its nearest existing parent.
    let there = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let name = there.join(format!(".terrace-profile-{}", process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&name)?;
    fs::remove_file(&name)?;
    // Write no zeros, because some file systems do not store them.
    let mut piece: Vec<u8> = (0..PIECE_BYTES as u64 / 8)
        .flat_map(|i| (i ^ 0x5555).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .collect();
    let (mut written, start) = (0, Instant::now());
    while written < MAX_WRITTEN_BYTES && start.elapsed() < time / 2 {
        piece[..8].copy_from_slice(&written.to_le_bytes());
        file.write_all_at(&piece, written)?;
        written += PIECE_BYTES as u64;
    }
    // Part of the measurement: without it the rate would be that of the page cache. It also lets `fadvise` drop the pages.
    file.sync_data()?;
    let write = written as f64 / start.elapsed().as_secs_f64();
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let latency = latency(&file, written)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let (mut read, start) = (0, Instant::now());
    while read < written && start.elapsed() < time / 2 {
        file.read_exact_at(&mut piece, read)?;
        read += PIECE_BYTES as u64;
    }
    Ok(ProfiledTier { write, read: read as f64 / start.elapsed().as_secs_f64(), latency })
}

/// Returns the median time of short reads that are spread over the file.
fn latency(file: &File, length: u64) -> io::Result<f64> {
    let mut short = [0; SHORT_READ_BYTES];
    let mut times = Vec::new();
    for number in 0..SHORT_READ_COUNT {
        let start = Instant::now();
        file.read_exact_at(
            &mut short,
            (number * 7919 % SHORT_READ_COUNT) * (length - SHORT_READ_BYTES as u64) / SHORT_READ_COUNT,
        )?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
