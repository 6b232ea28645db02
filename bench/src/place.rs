//! The folders for a measurement's stores: on tmpfs, and on the disk below the working directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use terrace::{Config, Store};

/// A folder in memory and one on disk, deleted at the end.
pub struct Place {
    ram: TempDir,
    disk: TempDir,
}

impl Place {
    /// Makes both folders.
    pub fn new() -> Result<Place> {
        let disk = std::env::var_os("TERRACE_BENCH_DISK").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        Ok(Place {
            ram: TempDir::with_prefix_in("terrace-bench-", "/dev/shm")?,
            disk: TempDir::with_prefix_in("terrace-bench-", disk)?,
        })
    }

    /// Returns the folder in memory.
    pub fn ram(&self) -> &Path {
        self.ram.path()
    }

    /// Returns the folder on disk.
    pub fn disk(&self) -> &Path {
        self.disk.path()
    }

    /// Makes a store over one tmpfs tier and `disks` disk tiers, with a replica on each. Its catalog is on disk.
    pub fn store(&self, name: &str, disks: usize) -> Result<Store> {
        let mut text = format!("[store]\nreplicas = {{ default = {} }}\n", disks + 1);
        let mut tier = |tier: &str, path: PathBuf| {
            text.push_str(&format!(
                "[[tier]]\nname = '{tier}'\nkind = 'directory'\ntargets = ['{}']\n",
                path.display()
            ));
        };
        tier("ram", self.ram().join(name));
        for disk in 0..disks {
            tier(&format!("disk{disk}"), self.disk().join(format!("{name}-{disk}")));
        }
        Ok(Store::init(&self.disk().join(name), &Config::parse(&text, "bench")?)?)
    }
}

/// At most this much memory is written before a measurement.
const MAX_WARMED_BYTES: u64 = 8 << 30;

/// Writes half of the free memory, and gives it back: the host of a virtual machine provides a page when it is first written, which takes
/// longer than much of what is measured.
///
/// # Errors
/// If the system does not tell how much is free.
pub fn warm_memory() -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let figure = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let free = figure.context("/proc/meminfo has no MemAvailable")?.parse::<u64>()? << 10;
    std::hint::black_box(vec![1_u8; (free / 2).min(MAX_WARMED_BYTES) as usize]);
    Ok(())
}

/// Makes bytes that resemble the output of a simulation: smooth 64-bit floats with noise in the low digits.
pub fn smooth_floats(length: usize, seed: u64) -> Vec<u8> {
    let mut noise = seed | 1;
    (0..length / 8)
        .flat_map(|i| {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = (i as f64 * 1e-3).sin() * 300.0 + (noise >> 44) as f64 * 1e-7;
            x.to_le_bytes()
        })
        .collect()
}

/// Makes bytes that no codec shrinks.
pub fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length / 8 + 1)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .take(length)
        .collect()
}
