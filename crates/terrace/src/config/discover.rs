//! A configuration for this machine, where none is given.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Bytes, Config, StoreConfig, TargetConfig, TierConfig, TierKind};

impl Config {
    /// A RAM tier of a quarter of the free tmpfs, and a disk tier in `data` of its free space less a tenth; with the
    /// reasons, in sentences.
    pub fn discover(data: &Path) -> io::Result<(Config, Vec<String>)> {
        fs::create_dir_all(data)?;
        let data = data.canonicalize()?;
        let (mut tiers, mut why) = (Vec::new(), Vec::new());
        let shared = Path::new("/dev/shm");
        if let Some(free) = free(shared).filter(|&free| free > 64 << 20) {
            let name = format!("terrace-{:016x}", xxhash_rust::xxh3::xxh3_64(data.as_os_str().as_encoded_bytes()));
            why.push(format!(
                "ram: {} on tmpfs, a quarter of the {} that are free; a reboot empties it",
                Bytes(whole(free / 4)),
                Bytes(whole(free))
            ));
            tiers.push(tier("ram", &shared.join(name), free / 4, false, "ram".into()));
        }
        let free = free(&data).unwrap_or(0);
        let device = fs::metadata(&data)?.dev();
        why.push(format!(
            "disk: {} in {}, what is free there less a tenth",
            Bytes(whole(free / 10 * 9)),
            data.display()
        ));
        tiers.push(tier("disk", &data.join("disk"), free / 10 * 9, true, format!("device-{device:x}")));
        Ok((Config { store: StoreConfig::default(), rules: Vec::new(), tiers }, why))
    }
}

fn tier(name: &str, path: &Path, capacity: u64, persistent: bool, domain: String) -> TierConfig {
    TierConfig {
        name: name.into(),
        kind: TierKind::Directory,
        targets: vec![TargetConfig { path: path.to_owned(), domain: Some(domain) }],
        capacity: Some(Bytes(whole(capacity))),
        persistent,
        high_watermark: 0.9,
        throttle: None,
    }
}

/// Whole MiB, for numbers that are to be read.
fn whole(bytes: u64) -> u64 {
    bytes & !0xF_FFFF
}

fn free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}
