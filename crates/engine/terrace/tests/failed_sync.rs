//! A thin device without space refuses bytes that its file system has accepted: a sync fails once, and the next one succeeds
//! although the bytes are not on the device. Such a success must not be taken for durability.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{run, store_of, tier};
use terrace::{Ack, PutOptions, Store};
use terrace_testkit::{Missing, noise, skip};

/// The size of the device. XFS refuses less.
const DEVICE_BYTES: u64 = 320 << 20;
const OBJECT_COUNT: u64 = 40;
const OBJECT_BYTES: usize = 1 << 20;

/// A file system on a device that has less space than it says. It is unmounted when this is dropped.
struct Thin {
    space: PathBuf,
    at: PathBuf,
    format: &'static str,
}

impl Thin {
    fn new(dir: &Path, format: &'static str) -> Result<Thin, Missing> {
        let thin = Thin { space: dir.join("space"), at: dir.join("thin"), format };
        thin.make().map_err(|e| Missing::new("loop", e))?;
        Ok(thin)
    }

    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.space)?;
        fs::create_dir(&self.at)?;
        run("mount", &["-t", "tmpfs", "-o", "size=400m", "terrace-test"], &[&self.space])?;
        File::create(self.device())?.set_len(DEVICE_BYTES)?;
        let options: &[&str] = if self.format == "xfs" {
            &["-q", "-f", "-K"]
        } else {
            &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0"]
        };
        run(&format!("mkfs.{}", self.format), options, &[&self.device()])?;
        self.mount()
    }

    fn device(&self) -> PathBuf {
        self.space.join("device")
    }

    fn mount(&self) -> io::Result<()> {
        run("mount", &["-t", self.format, "-o", "loop"], &[&self.device(), &self.at])
    }

    /// Leaves the device with this much space.
    fn leave(&self, bytes: u64) {
        let found = rustix::fs::statvfs(&self.space).unwrap();
        let used = (found.f_blocks - found.f_bfree) * found.f_frsize;
        run("mount", &["-o", &format!("remount,size={}", used + bytes)], &[&self.space]).unwrap();
    }

    /// Forgets all that is not on the device.
    fn mount_again(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = run("umount", &[], &[&self.at]) {
            assert!(Instant::now() < end, "{error}");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.mount().unwrap();
    }
}

impl Drop for Thin {
    fn drop(&mut self) {
        // They may not have been mounted. `-l`: a test that failed may still have files open.
        for at in [&self.at, &self.space] {
            let _ = Command::new("umount").arg("-l").arg(at).output();
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("k{number}").into_bytes()
}

/// Puts objects to a device that runs out of space, then makes room and puts them again. Returns the number of those that
/// were refused at first, and are durable in the end.
fn refused_and_put_again(test: &str, format: &'static str, more: &str) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    let thin = match Thin::new(dir.path(), format) {
        Ok(thin) => thin,
        Err(missing) => {
            skip(test, &missing);
            return None;
        }
    };
    let store = store_of(dir.path(), &[tier(dir.path(), "thin", &["thin/t"], more)]);
    let durable = PutOptions { ack: Some(Ack::Durable), replicas: Some(1), ..PutOptions::default() };
    store.put_bytes(b"first", &noise(OBJECT_BYTES, 1), &durable).unwrap();
    thin.leave(8 << 20);
    let bytes = |number| noise(OBJECT_BYTES, number + 2);
    let put = |store: &Store, number| store.put_bytes(&key(number), &bytes(number), &durable).is_ok();
    let refused = (0..OBJECT_COUNT).filter(|&number| !put(&store, number)).collect::<Vec<_>>();
    assert!(!refused.is_empty(), "{format}: the device takes everything");
    thin.leave(300 << 20);
    // A target that failed is left alone for two seconds.
    let end = Instant::now() + Duration::from_secs(20);
    while store.sync().is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut kept: Vec<u64> = (0..OBJECT_COUNT).filter(|number| !refused.contains(number)).collect();
    let again: Vec<u64> = refused.into_iter().filter(|&number| put(&store, number)).collect();
    kept.extend(&again);
    // It may fail where the file system has become read-only.
    let _ = store.close();
    thin.mount_again();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let is_lost = |number: &u64| !store.get(&key(*number)).is_ok_and(|found| found == bytes(*number));
    let lost: Vec<u64> = kept.iter().copied().filter(is_lost).collect();
    assert!(lost.is_empty(), "{format}: {lost:?} of {kept:?} were durable, and are lost");
    store.close().unwrap();
    Some(again.len())
}

#[test]
fn frames_that_ext4_could_not_write_are_written_again() {
    // ext4 may become read-only, and then nothing is acknowledged.
    refused_and_put_again("ext4", "ext4", "");
}

#[test]
fn frames_that_xfs_could_not_write_are_written_again() {
    assert_ne!(refused_and_put_again("xfs", "xfs", ""), Some(0), "the device has room again");
}

#[test]
fn plain_files_that_xfs_could_not_write_are_written_again() {
    let again = refused_and_put_again("xfs, plain", "xfs", "layout = 'plain'");
    assert_ne!(again, Some(0), "the device has room again");
}

/// The files in a folder that hold bytes of objects, oldest first.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_none());
    files.sort();
    files
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

/// The background thread may sync a put before the test notes a failed sync, and then no sync follows. So the test tries again.
const MAX_TRIES: u64 = 50;

#[test]
fn a_sync_after_a_failed_one_checks_every_frame() {
    for (folder, layout) in [("segments", ""), ("plain", "layout = 'plain'")] {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a"], layout)]);
        let one = PutOptions { ack: Some(Ack::Replicated), replicas: Some(1), ..PutOptions::default() };
        let folder = dir.path().join("a").join(folder);
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode();
        let modified = |file: &Path| fs::metadata(file).unwrap().modified().unwrap();
        let is_noted = |file: &Path| mode(file) & 0o1000 != 0;

        let is_written_again = |seed| {
            store.put_bytes(b"k", &noise(OBJECT_BYTES, seed), &one).unwrap();
            let file = files_in(&folder).pop().unwrap();
            let log = fs::read_dir(store.dir().join("log")).unwrap().next().unwrap().unwrap().path();
            let before = (mode(&file), modified(&file));
            [&file, &log].into_iter().for_each(|file| set_mode(file, mode(file) | 0o1000));
            store.sync().unwrap();
            assert!(layout.is_empty() || modified(&file) == before.1, "users see the object's time");
            assert_eq!(store.get(b"k").unwrap(), noise(OBJECT_BYTES, seed));
            mode(&file) == before.0 && !is_noted(&log)
        };
        assert!((0..MAX_TRIES).any(is_written_again), "{layout}: written again, nothing to note");

        let is_refused = |seed| {
            store.put_bytes(b"l", &noise(OBJECT_BYTES, MAX_TRIES + seed), &one).unwrap();
            let newest = lose_end(&folder);
            let Err(error) = store.sync() else { return false };
            assert!(error.to_string().contains("scrub --repair"), "{error}");
            assert!(is_noted(&newest), "still noted");
            true
        };
        assert!((0..MAX_TRIES).any(is_refused), "{layout}: a frame that is lost");
    }
}

/// Damages the end of the file that has the newest frame, as a page that was not written and is no longer in memory, and notes a failed
/// sync of it.
fn lose_end(folder: &Path) -> PathBuf {
    let newest = files_in(folder).pop().unwrap();
    let damaged = File::options().write(true).open(&newest).unwrap();
    damaged.write_all_at(&[0; 4096], damaged.metadata().unwrap().len() - 8192).unwrap();
    set_mode(&newest, fs::metadata(&newest).unwrap().permissions().mode() | 0o1000);
    newest
}

fn is_synced_in_time(store: &Store) {
    // A target that failed is left alone for two seconds.
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = store.sync() {
        assert!(Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Each sync failed until a process opened the store alone: the place of the bad frame was to be freed after a mark, and no mark
/// was made without a sync.
#[test]
fn a_sync_succeeds_once_the_lost_frame_is_not_needed() {
    for (folder, layout) in [("segments", ""), ("plain", "layout = 'plain'")] {
        for is_removed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let disk = tier(dir.path(), "disk", &["a"], layout);
            let store = store_of(dir.path(), &[disk, tier(dir.path(), "other", &["b"], "")]);
            let both = PutOptions { ack: Some(Ack::Replicated), replicas: Some(2), ..PutOptions::default() };
            store.sync().unwrap();
            for (key, seed) in [(b"first", 1), (b"other", 2), (b"third", 3)] {
                store.put_bytes(key, &noise(OBJECT_BYTES, seed), &both).unwrap();
            }
            lose_end(&dir.path().join("a").join(folder));
            assert!(store.sync().unwrap_err().to_string().contains("scrub --repair"));
            if is_removed {
                store.remove(b"third").unwrap();
            } else {
                let end = Instant::now() + Duration::from_secs(20);
                while store.scrub(b"", true, None, |_| {}).unwrap().bad > 0 {
                    assert!(Instant::now() < end, "the replica is made again");
                }
            }
            is_synced_in_time(&store);
            store.sync().unwrap();
            let found = store.scrub(b"", false, None, |_| {}).unwrap();
            assert_eq!((found.bad, found.lost, found.one_copy), (0, 0, 0), "{layout} {is_removed}");
            assert_eq!(store.get(b"other").unwrap(), noise(OBJECT_BYTES, 2));
            assert_eq!(store.get(b"third").is_ok(), !is_removed);
            store.close().unwrap();
            // Nothing is left to be freed twice.
            let store = Store::open(&dir.path().join("store")).unwrap();
            assert_eq!(store.get(b"first").unwrap(), noise(OBJECT_BYTES, 1));
        }
    }
}
