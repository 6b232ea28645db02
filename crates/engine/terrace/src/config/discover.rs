//! Makes a configuration for this machine when none is given.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{Bytes, Config, Layout, StoreConfig, TargetConfig, TierConfig, TierKind};

/// The directory in which Linux keeps shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// No tier is made in less free memory than this.
const MIN_TIER_BYTES: u64 = 64 << 20;
/// The domain of all volatile tiers of a node.
const RAM_NAME: &str = "ram";

impl Config {
    /// Returns a configuration with a RAM tier of a quarter of the free tmpfs, and a disk tier in `data_dir` of its free
    /// space less a tenth. Also returns the reasons, in sentences.
    pub fn discover(data_dir: &Path) -> io::Result<(Config, Vec<String>)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        let data = data_dir.canonicalize()?;
        if data.to_str().is_none() {
            let reason = format!("{} is not UTF-8, so no configuration can name it", data.display());
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, reason));
        }
        let disk = Device::of(&data)?;
        let (mut tiers, mut why) = (Vec::new(), Vec::new());
        if disk.volatile {
            why.push(format!("no RAM tier: {} is in memory itself", data.display()));
        } else {
            match ram(&data) {
                Ok((tier, reason)) => {
                    tiers.push(tier);
                    why.push(reason);
                }
                Err(reason) => why.push(format!("no RAM tier: {reason}")),
            }
        }
        let capacity = whole(disk.free - disk.free / 10);
        if capacity == 0 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, format!("{}: no space is free", data.display())));
        }
        why.push(format!(
            "disk: {} in {}, what is free there ({}) less a tenth",
            Bytes(capacity),
            data.display(),
            Bytes(whole(disk.free))
        ));
        if disk.volatile {
            why.push(format!("disk: {} is in memory: A REBOOT LOSES THE STORE, whatever the ack", data.display()));
        }
        tiers.push(tier("disk", &data.join("disk"), capacity, true, disk.domain()));
        Ok((Config { store: StoreConfig::default(), rules: Vec::new(), origins: Vec::new(), tiers }, why))
    }
}

/// Returns the RAM tier for a store in `data` and the reason for its size, or the reason why there is none.
fn ram(data: &Path) -> Result<(TierConfig, String), String> {
    let device = Device::of(Path::new(SHARED_MEMORY)).map_err(|e| format!("{SHARED_MEMORY}: {e}"))?;
    if !device.volatile {
        return Err(format!("{SHARED_MEMORY} is not in memory here"));
    }
    if device.free < MIN_TIER_BYTES {
        return Err(format!("only {} are free in {SHARED_MEMORY}", Bytes(device.free)));
    }
    let (path, left) = choose_memory_path(data)?;
    let capacity = whole(device.free / 4);
    let mut reason = format!(
        "ram: {} in {}, a quarter of what is free there ({}); a reboot empties it",
        Bytes(capacity),
        path.display(),
        Bytes(whole(device.free))
    );
    if let Some(left) = left {
        reason += &format!(
            "; {} is in use by a store that was here before: if that store is gone, remove it to get its memory back",
            left.display()
        );
    }
    Ok((tier("ram", &path, capacity, false, device.domain()), reason))
}

/// Returns a directory in shared memory that is missing or empty, and the last one that was passed over because it is neither.
/// A store that was removed by `rm -r` leaves its tier in memory behind.
fn choose_memory_path(data: &Path) -> Result<(PathBuf, Option<PathBuf>), String> {
    let user = rustix::process::getuid().as_raw();
    let hash = xxhash_rust::xxh3::xxh3_64(data.as_os_str().as_encoded_bytes());
    let name = format!("{SHARED_MEMORY}/terrace-{user}-{hash:016x}");
    let (mut path, mut left, mut number) = (PathBuf::from(&name), None, 1);
    while let Ok(found) = fs::symlink_metadata(&path) {
        // Any user may make files in shared memory. A directory of another user must not be trusted.
        if !found.is_dir() || found.uid() != user {
            return Err(format!("{} belongs to another user; remove it", path.display()));
        }
        if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none()) {
            break;
        }
        left = Some(std::mem::replace(&mut path, PathBuf::from(format!("{name}-{number}"))));
        number += 1;
    }
    Ok((path, left))
}

fn tier(name: &str, path: &Path, capacity: u64, persistent: bool, domain: String) -> TierConfig {
    TierConfig {
        name: name.into(),
        kind: TierKind::directory(),
        layout: Layout::Frames,
        targets: vec![TargetConfig { domain: Some(domain), ..TargetConfig::at(path) }],
        service: None,
        options: Default::default(),
        timeout: None,
        capacity: Some(Bytes(capacity)),
        persistent,
        watts: super::tier::five(),
        high_watermark: 0.9,
        throttle: None,
    }
}

/// The file system of a path.
struct Device {
    free: u64,
    number: u64,
    volatile: bool,
}

impl Device {
    fn of(path: &Path) -> io::Result<Device> {
        const TMPFS_MAGIC: u32 = 0x0102_1994;
        const RAMFS_MAGIC: u32 = 0x8584_58f6;
        let space = rustix::fs::statvfs(path)?;
        // The type is a 32-bit number, in a field that is wider on some machines.
        let kind = rustix::fs::statfs(path)?.f_type as u32;
        Ok(Device {
            free: space.f_bavail.saturating_mul(space.f_frsize),
            number: fs::metadata(path)?.dev(),
            volatile: [TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind),
        })
    }

    fn domain(&self) -> String {
        if self.volatile {
            return RAM_NAME.into();
        }
        format!("device-{}:{}", rustix::fs::major(self.number), rustix::fs::minor(self.number))
    }
}

/// Rounds down to whole MiB, for numbers that people read.
fn whole(bytes: u64) -> u64 {
    bytes & !0xF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_discovered_can_be_used_and_is_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("not/yet/there");
        let (config, why) = Config::discover(&data).expect("discovers");
        assert_eq!(fs::metadata(&data).expect("a folder").mode() & 0o777, 0o700, "others can read what is stored");
        let again = Config::parse(&config.to_toml(), "discovered").expect("parses");
        assert_eq!(again.to_toml(), config.to_toml());
        let disk = config.tiers.last().expect("a disk tier");
        assert!(disk.persistent && disk.targets[0].path.ends_with("not/yet/there/disk"));
        let free = Device::of(&data).expect("a device").free;
        let capacity = disk.capacity.expect("a capacity").0;
        assert!(capacity > 0 && capacity < free, "{capacity} of {free}");
        assert!(why.iter().any(|w| w.starts_with("disk: ")) && why.len() >= 2, "{why:?}");
        if let [ram, disk] = &config.tiers[..] {
            assert!(!ram.persistent);
            assert_eq!(ram.targets[0].domain.as_deref(), Some("ram"));
            assert!(disk.targets[0].domain.as_deref().is_some_and(|d| d.starts_with("device-")));
        }
    }

    #[test]
    fn two_stores_do_not_share_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let path =
            |name| Config::discover(&folder.path().join(name)).expect("discovers").0.tiers[0].targets[0].path.clone();
        assert_ne!(path("a"), path("b"));
        assert_eq!(path("a"), path("a"));
    }

    #[test]
    fn a_store_in_memory_is_said_to_be_lost_at_a_reboot() {
        if !Device::of(Path::new(SHARED_MEMORY)).is_ok_and(|device| device.volatile) {
            return;
        }
        let folder = tempfile::tempdir_in(SHARED_MEMORY).expect("a folder");
        let (config, why) = Config::discover(folder.path()).expect("discovers");
        assert_eq!(config.tiers.len(), 1);
        assert_eq!(config.tiers[0].targets[0].domain.as_deref(), Some("ram"));
        assert!(why.iter().any(|w| w.contains("REBOOT")), "{why:?}");
    }
}
