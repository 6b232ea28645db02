//! The disk of a target is unplugged and plugged in again while the machine and the store's own directory stay: it has lost the writes
//! that were not synced.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{replicated, run, store_of, tier};
use terrace::{Ack, Error, PutOptions, Store};
use terrace_testkit::{Missing, noise, skip};

/// The size of the disk. XFS refuses less.
const DISK_BYTES: u64 = 320 << 20;

/// A file system on an image. It is unmounted when this is dropped.
struct Disk {
    image: PathBuf,
    at: PathBuf,
    options: &'static str,
}

impl Disk {
    fn new(dir: &Path, format: &str) -> Result<Disk, Missing> {
        // XFS refuses a copy of a file system that a process still has open.
        let options = if format == "xfs" { "loop,nouuid" } else { "loop" };
        let disk = Disk { image: dir.join("image"), at: dir.join("disk"), options };
        let make = || {
            fs::create_dir(&disk.at)?;
            File::create(&disk.image)?.set_len(DISK_BYTES)?;
            run(&format!("mkfs.{format}"), &["-q"], &[&disk.image])?;
            disk.mount()
        };
        make().map_err(|e| Missing::new("loop", e))?;
        Ok(disk)
    }

    fn mount(&self) -> io::Result<()> {
        run("mount", &["-o", self.options], &[&self.image, &self.at])
    }

    /// Loses what is not on the image yet. Open files stay those of the old mount.
    fn unplug_and_plug_in(&self) {
        let kept = self.image.with_extension("kept");
        run("cp", &["--sparse=always"], &[&self.image, &kept]).unwrap();
        run("umount", &["-l"], &[&self.at]).unwrap();
        fs::rename(kept, &self.image).unwrap();
        self.mount().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn durable() -> PutOptions {
    PutOptions { ack: Some(Ack::Durable), replicas: Some(1), ..PutOptions::default() }
}

fn placed() -> PutOptions {
    PutOptions { ack: Some(Ack::Placed), replicas: Some(1), ..PutOptions::default() }
}

/// Puts an object durably, and then over it, and unplugs the disk. `within` runs while the store is still open.
fn unplug(format: &str, test: &str, within: impl FnOnce(&Store)) {
    let dir = tempfile::tempdir().unwrap();
    let disk = match Disk::new(dir.path(), format) {
        Ok(disk) => disk,
        Err(missing) => return skip(test, &missing),
    };
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk/target"], "")]);
    store.put_bytes(b"k", &noise(200_000, 1), &durable()).unwrap();
    store.sync().unwrap();
    store.put_bytes(b"k", &noise(200_000, 2), &placed()).unwrap();
    disk.unplug_and_plug_in();
    within(&store);
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.get(b"k").unwrap() == noise(200_000, 1), "the durable version is back");
    store.put_bytes(b"other", &noise(200_000, 3), &replicated()).unwrap();
    store.sync().unwrap();
    assert!(store.get(b"k").unwrap() == noise(200_000, 1));
}

#[test]
fn the_durable_version_comes_back_when_ext4_lost_a_newer_one() {
    unplug("ext4", "unplugged: ext4", |_| {});
}

#[test]
fn the_durable_version_comes_back_when_xfs_lost_a_newer_one() {
    unplug("xfs", "unplugged: xfs", |_| {});
}

/// Nothing is called durable by a process that had the store open before.
#[test]
fn a_sync_of_the_rest_does_not_count() {
    unplug("ext4", "unplugged: sync", |store| {
        let synced = store.sync();
        assert!(matches!(&synced, Err(Error::Store { reason, .. }) if reason.contains("was unmounted")), "{synced:?}");
    });
}

/// A target that is not mounted is only away, and may come later.
#[test]
fn a_target_that_was_not_mounted_when_the_store_was_opened_may_come_later() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match Disk::new(dir.path(), "ext4") {
        Ok(disk) => disk,
        Err(missing) => return skip("unplugged: later", &missing),
    };
    let tiers = [tier(dir.path(), "home", &["home"], ""), tier(dir.path(), "disk", &["disk"], "")];
    drop(store_of(dir.path(), &tiers));
    run("umount", &[], &[&disk.at]).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.put_bytes(b"k", &noise(200_000, 1), &durable()).unwrap();
    disk.mount().unwrap();
    store.put_bytes(b"k", &noise(200_000, 2), &durable()).unwrap();
    store.sync().unwrap();
}
