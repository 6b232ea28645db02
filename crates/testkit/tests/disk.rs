//! Recorded disks: what was flushed is in each image, what was not may be missing, and nothing stays mounted.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use terrace_testkit::disk::{DiskFormat, RecordedDisk};
use terrace_testkit::{Random, skip};

terrace_testkit::disk_server!();

const HELD_DISK_VARIABLE: &str = "TERRACE_TEST_HOLD_DISK";

fn disk(test: &str, format: DiskFormat) -> Option<RecordedDisk> {
    RecordedDisk::create(format, 0).map_err(|missing| skip(test, &missing)).ok()
}

fn write_flushed(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn images_hold_what_was_flushed_and_lose_what_was_not() {
    let Some(disk) = disk("images of a recorded disk", DiskFormat::Ext4) else { return };
    let mut random = Random::new(1);
    let empty = disk.position().unwrap();
    let old = random.bytes(300_000);
    write_flushed(&disk.path().join("flushed"), &old);
    File::open(disk.path()).unwrap().sync_all().unwrap();
    let flushed = disk.position().unwrap();
    fs::write(disk.path().join("later"), random.bytes(300_000)).unwrap();
    let at = disk.path();
    let mut record = disk.power_off().unwrap();
    assert!(empty < flushed && flushed < record.length());
    assert!(fs::read_dir(&at).unwrap().next().is_none(), "it is unmounted");

    let image = record.image_at(empty, &mut random).unwrap();
    assert!(!image.path().join("flushed").exists());
    image.unmount().unwrap();
    let (mut without, mut torn) = (0, 0);
    for position in (flushed..=record.length()).chain([flushed]) {
        let image = record.image_at(position, &mut random).unwrap();
        assert!(fs::read(image.path().join("flushed")).unwrap() == old, "at {position}");
        without += usize::from(!image.path().join("later").exists());
        torn += image.losses().torn;
    }
    assert!(without > 0 && torn > 0);

    // It goes on from a state after a cut, and is recorded again.
    let (disk, _) = record.restart_at(flushed, &mut random).unwrap();
    assert!(fs::read(disk.path().join("flushed")).unwrap() == old);
    fs::write(disk.path().join("again"), b"again").unwrap();
    let mut record = disk.power_off().unwrap();
    let image = record.image_at(record.length(), &mut random).unwrap();
    assert_eq!(image.path(), at);
    assert!(fs::read(image.path().join("flushed")).unwrap() == old);
}

#[test]
fn every_format_can_be_recorded() {
    for format in DiskFormat::ALL {
        let Some(disk) = disk("a recorded disk of each format", format) else { continue };
        write_flushed(&disk.path().join("file"), b"bytes");
        let position = disk.position().unwrap();
        let mut record = disk.power_off().unwrap();
        // Back and forth: btrfs must not remember a newer state.
        for position in [position, record.length(), position] {
            let image = record.image_at(position, &mut Random::new(2)).unwrap();
            assert_eq!(fs::read(image.path().join("file")).unwrap(), b"bytes", "{format:?} at {position}");
            image.unmount().unwrap();
        }
    }
}

/// Not a test by itself: holds a disk until it is killed.
#[test]
fn hold_disk() {
    if std::env::var_os(HELD_DISK_VARIABLE).is_none() {
        return;
    }
    let disk = RecordedDisk::create(DiskFormat::Ext4, 0).unwrap();
    fs::write(disk.path().join("dirty"), vec![1; 1 << 20]).unwrap();
    println!("\nat {}", disk.path().display());
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn nothing_stays_mounted_after_a_kill() {
    let Some(probe) = disk("a killed user of a recorded disk", DiskFormat::Ext4) else { return };
    drop(probe);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hold_disk", "--nocapture"]).env(HELD_DISK_VARIABLE, "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = lines.find_map(|line| line.unwrap().strip_prefix("at ").map(str::to_owned)).unwrap();
    let folder = folder.strip_suffix("/mnt").unwrap();
    let mounted = || fs::read_to_string("/proc/mounts").unwrap().contains(folder);
    assert!(mounted());
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while mounted() || fs::exists(folder).unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{folder} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
