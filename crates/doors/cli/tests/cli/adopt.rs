//! `terrace adopt`: files become objects without a copy of their bytes, and no command changes the files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use terrace_testkit::disk::remove_dead_disks;
use terrace_testkit::{Missing, noise, skip, wait_until};

use crate::place::{Place, ran};

const DISK_BYTES: u64 = 400 << 20;

/// A file system below a place, with a store whose tier of plain files is on it. It is unmounted when this is dropped.
struct Disk {
    place: Place,
    at: PathBuf,
}

impl Disk {
    /// None, with a counted skip, where this user may not mount.
    fn new(format: &str) -> Option<Disk> {
        Disk::with_archive(format, "")
    }

    /// With a further tier in this folder of the place, which holds frames.
    fn with_archive(format: &str, archive: &str) -> Option<Disk> {
        let place = Place::empty();
        let disk = Disk { at: place.path("disk"), place };
        if let Err(error) = disk.mount(format) {
            skip("adopt", &Missing::new("loop", error));
            return None;
        }
        let target = |name: &str, path: PathBuf, rest: &str| {
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = [{path:?}]\n{rest}\n")
        };
        let ram = target("ram", disk.place.path("ram"), "persistent = false");
        let pfs = target("pfs", disk.at.join("pfs"), "layout = 'plain'");
        let archive = match archive {
            "" => String::new(),
            folder => target("archive", disk.place.path(folder), "throttle = { latency = '50ms', read = '10MB/s' }"),
        };
        disk.place.write("terrace.toml", format!("[store]\nreplicas = {{ default = 1 }}\n{ram}{pfs}{archive}"));
        disk.place.good(["init", "--config", "terrace.toml"]);
        Some(disk)
    }

    fn mount(&self, format: &str) -> io::Result<()> {
        fs::create_dir(&self.at)?;
        if format == "tmpfs" {
            return run(Command::new("mount").args(["-t", "tmpfs", "terrace-test"]).arg(&self.at));
        }
        let image = self.place.path("image");
        File::create(&image)?.set_len(DISK_BYTES)?;
        remove_dead_disks();
        run(Command::new(format!("mkfs.{format}")).args(["-q", "-f"]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&self.at))
    }

    fn owned(&self) -> PathBuf {
        self.at.join("own")
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        self.place.write(self.owned().join(name), bytes);
    }

    fn adopt(&self) -> Value {
        let (found, code) = self.place.json(["adopt", "disk/own", "data"]);
        assert_eq!((code, &found["failed"]), (0, &Value::from(0)), "{found}");
        found
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    let said = || io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// All that the owner of files sees of them: number, mode, time and bytes of each, and where links lead.
type Seen = BTreeMap<PathBuf, (u64, u32, i64, i64, Vec<u8>)>;

fn see(folder: &Path, seen: &mut Seen) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let bytes = match metadata.file_type() {
            kind if kind.is_dir() => Vec::new(),
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => fs::read(&path).unwrap(),
        };
        if metadata.is_dir() {
            see(&path, seen);
        }
        let time = (metadata.mtime(), metadata.mtime_nsec());
        seen.insert(path, (metadata.ino(), metadata.mode(), time.0, time.1, bytes));
    }
}

fn seen(disk: &Disk) -> Seen {
    let mut all = Seen::new();
    see(&disk.owned(), &mut all);
    all
}

fn no_command_changes_the_files(format: &str) {
    let Some(disk) = Disk::new(format) else { return };
    let place = &disk.place;
    for (name, length) in [("a", 3_500_001), ("b", 5000), ("c/d", 1 << 20), ("e", 70_000), ("f", 300_000), ("g", 9)] {
        disk.write(name, &noise(length, length as u64));
    }
    disk.write("empty", b"");
    let sparse = File::create(disk.owned().join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    sparse.write_all_at(&noise(200_000, 1), 3_000_001).unwrap();
    std::os::unix::fs::symlink("a", disk.owned().join("link")).unwrap();
    let before = seen(&disk);
    let same = |after: &str| assert!(seen(&disk) == before, "the files changed after {after:?}");

    place.bad(["adopt", "disk/pfs/files", "x"], &["disk/pfs"]);
    let words = place.good(["adopt", "disk/own", "data", "--ack", "durable"]);
    let expected = if format == "tmpfs" { "0 as clones, 7 as hard links" } else { "7 as clones, 0 as hard links" };
    assert!(words.contains("9 objects written") && words.contains(expected), "{words}");
    place.good(["check", "disk/own", "data"]);
    assert_eq!((disk.adopt()["written"].clone(), seen(&disk) == before), (0.into(), true));

    place.write("new", noise(40_000, 77));
    place.write("lines", "more\n");
    let commands: [&[&str]; 17] = [
        &["put", "new", "data/a"],
        &["check", "new", "data/a"],
        &["cp", "data/b", "data/b2"],
        &["mv", "data/c/d", "data/c/moved"],
        &["mv", "data/e", "data/g"],
        &["stage", "data", "--tier", "ram"],
        &["evict", "data/f", "--tier", "pfs"],
        &["sync"],
        &["scrub"],
        &["repair"],
        &["put", "new", "data/f"],
        &["rm", "data/sparse"],
        &["prune"],
        &["rebuild"],
        &["drain", "pfs"],
        &["rm", "-r", "data/c"],
        &["sync"],
    ];
    for command in commands {
        let ran = place.run(command);
        // A tier in memory cannot take over from the only other one, so the drain is refused.
        assert!(ran.code == 0 || command[0] == "drain" || command[0] == "evict", "{command:?}: {}{}", ran.out, ran.err);
        same(&command.join(" "));
    }
    place.good(["get", "data/b2", "out"]);
    assert!(place.read("out") == noise(5000, 5000));
    let destroyed = place.good(["destroy", "--force"]);
    assert!(format != "tmpfs" || !destroyed.contains("MiB of tier pfs"), "its owner's bytes stay: {destroyed}");
    same("destroy");
    assert!(seen(&disk).keys().filter(|path| path.is_file()).all(|path| fs::metadata(path).unwrap().nlink() == 1));
    assert!(!disk.at.join("pfs").exists());
}

#[test]
fn no_command_changes_linked_files() {
    no_command_changes_the_files("tmpfs");
}

#[test]
fn no_command_changes_cloned_files_of_xfs() {
    no_command_changes_the_files("xfs");
}

#[test]
fn no_command_changes_cloned_files_of_btrfs() {
    no_command_changes_the_files("btrfs");
}

/// Changes a file in place.
fn change(disk: &Disk, name: &str, at: u64) {
    let file = File::options().write(true).open(disk.owned().join(name)).unwrap();
    file.write_all_at(b"changed by its owner", at).unwrap();
}

#[test]
fn a_change_of_a_linked_file_is_an_error_and_then_a_new_version_but_no_damage() {
    let Some(disk) = Disk::new("tmpfs") else { return };
    let place = &disk.place;
    for name in ["one", "two"] {
        disk.write(name, &noise(2_500_000, 3));
    }
    place.good(["adopt", "disk/own/one", "data/one"]);
    place.good(["adopt", "disk/own/two", "data/two", "--replicas", "2"]);
    change(&disk, "one", 2_000_000);
    change(&disk, "two", 2_000_000);
    let changed = seen(&disk);
    place.bad(["get", "data/one", "out"], &["its owner has changed it since; `terrace adopt` takes", "--checksum"]);
    let (found, code) = place.json(["scrub"]);
    let counts = ["changed", "bad", "lost"].map(|count| found[count].as_u64());
    assert_eq!((counts, code), ([Some(2), Some(0), Some(0)], 1), "{found}");
    // Where another replica is left, the object stays as it was adopted, in a file of the store's own.
    let (found, _) = place.json(["repair"]);
    assert_eq!((found["changed"].as_u64(), found["lost"].as_u64()), (Some(1), Some(0)), "{found}");
    assert_eq!(found["changed_of"], serde_json::json!({"data/one": 1}), "{found}");
    place.good(["sync"]);
    place.good(["get", "data/two", "out"]);
    assert!(place.read("out") == noise(2_500_000, 3));
    assert!(fs::read(disk.at.join("pfs/files/data/two")).unwrap() == noise(2_500_000, 3));
    assert!(seen(&disk) == changed, "a repair wrote to a file of its owner's");
    let (health, code) = place.json(["health"]);
    assert_eq!(
        (&health["health"], &health["findings"][0]["code"], code),
        (&"warning".into(), &"FILES_CHANGED".into(), 1)
    );
    // The changed files are new versions.
    assert_eq!(disk.adopt()["written"], 2);
    place.good(["check", "disk/own", "data"]);
    place.good(["scrub"]);
    assert!(!disk.at.join("pfs/files/data/two").exists(), "the older version is not shown any more");
    // A file that is removed or replaced by its owner stays as it was adopted.
    let old = fs::read(disk.owned().join("one")).unwrap();
    fs::remove_file(disk.owned().join("one")).unwrap();
    disk.write("one", b"another file");
    place.good(["get", "data/one", "out"]);
    assert!(place.read("out") == old);
    assert!(seen(&disk).values().any(|(.., bytes)| bytes == b"another file"));
    let names = || fs::metadata(disk.owned().join("two")).unwrap().nlink();
    assert_eq!(names(), 2, "the store's name of the replaced version is gone");
    place.good(["sync"]);
    place.good(["rm", "-r", "data"]);
    assert_eq!(names(), 1, "the store's own name is gone");
}

/// A replica was made pending that could not be made: each of these commands waited for half a minute, and then said that a tier was slow
/// or away.
#[test]
fn a_changed_file_stays_where_it_is_and_the_rest_moves() {
    let Some(disk) = Disk::with_archive("tmpfs", "archive") else { return };
    let place = &disk.place;
    for name in ["a", "b", "c"] {
        disk.write(name, &noise(2_500_000, 3));
    }
    disk.adopt();
    change(&disk, "b", 1_500_000);
    let left = |command: &[&str], kept: u64| {
        let (found, code) = place.json(command);
        assert_eq!(
            (code, found["kept"].as_u64(), &found["changed"]),
            (1, Some(kept), &json!({"data/b": 1})),
            "{found}"
        );
        assert_eq!(place.json(["status"]).0["owed"], 0, "{command:?}");
    };
    left(&["stage", "data", "--tier", "ram"], 1);
    left(&["evict", "data", "--tier", "pfs"], 1);
    let words = place.run(["drain", "pfs"]);
    assert!(words.code == 1 && words.out.contains("data/b") && words.out.contains("changed"), "{}", words.out);
    left(&["drain", "pfs"], 1);
    place.good(["sync"]);
    for name in ["a", "c"] {
        place.good(["get", &format!("data/{name}"), "out"]);
        assert!(place.read("out") == noise(2_500_000, 3));
    }
    // A replica that is requested later is not waited for, either.
    disk.adopt();
    change(&disk, "b", 1_600_000);
    place.good(["stage", "data/a", "--tier", "ram"]);
    left(&["stage", "data", "--tier", "archive"], 1);
    disk.adopt();
    place.good(["drain", "pfs"]);
    place.good(["sync"]);
    place.good(["check", "disk/own", "data"]);
    for name in ["a", "c"] {
        assert!(fs::read(disk.owned().join(name)).unwrap() == noise(2_500_000, 3));
    }
}

#[test]
fn a_read_that_finds_a_changed_file_repairs_no_damage() {
    let Some(disk) = Disk::with_archive("tmpfs", "archive") else { return };
    let place = &disk.place;
    disk.write("a", &noise(2_500_000, 3));
    place.good(["adopt", "disk/own/a", "a", "--replicas", "2"]);
    // To the archive, which is slow: the file is read first.
    place.good(["evict", "a", "--tier", "ram"]);
    change(&disk, "a", 1_500_000);
    let words = place.good(["get", "a", "out"]);
    assert!(words.contains("1 replica in adopted files that their owners have changed"), "{words}");
    assert!(!words.contains("damaged") && place.read("out") == noise(2_500_000, 3), "{words}");
    let (found, _) = place.json(["health"]);
    assert_ne!(found["state"], "damaged", "{found}");
}

#[test]
fn a_salvage_offers_no_file_that_its_owner_has_changed() {
    let Some(disk) = Disk::new("tmpfs") else { return };
    let place = &disk.place;
    for (name, seed) in [("a", 3), ("b", 4)] {
        disk.write(name, &noise(2_500_000, seed));
    }
    disk.adopt();
    place.good(["sync"]);
    change(&disk, "a", 1_500_000);
    for lost in ["store/log", "store/catalog", "disk/pfs/log"] {
        fs::remove_dir_all(place.path(lost)).unwrap();
    }
    fs::create_dir(place.path("store/log")).unwrap();
    place.run(["rebuild", "--salvage"]);
    let keys = place.keys("");
    assert_eq!(keys.len(), 1, "{keys:?}");
    place.good(["get", &keys[0], "out"]);
    assert!(place.read("out") == noise(2_500_000, 4));
}

#[test]
fn a_change_of_a_cloned_file_does_not_change_the_object() {
    let Some(disk) = Disk::new("xfs") else { return };
    disk.write("one", &noise(2_500_000, 3));
    disk.adopt();
    change(&disk, "one", 1_000_000);
    disk.place.good(["get", "data/one", "out"]);
    assert!(disk.place.read("out") == noise(2_500_000, 3));
    disk.place.good(["scrub"]);
    assert_eq!(disk.adopt()["written"], 1);
    disk.place.good(["check", "disk/own", "data"]);
}

#[test]
fn files_of_another_file_system_are_refused() {
    let Some(disk) = Disk::new("tmpfs") else { return };
    disk.place.write("elsewhere", b"bytes");
    disk.place
        .bad(["adopt", "elsewhere", "data/x"], &["no tier of layout `plain` is on its file system", "terrace put"]);
    disk.write("a", b"bytes");
    disk.place.bad(["adopt", "disk/own/a", &"k".repeat(300)], &["no part of the name may be longer"]);
    disk.place.bad(["adopt", "/dev/zero", "x"], &["a device"]);
    assert_eq!(disk.place.keys(""), [""; 0]);
    assert!(!disk.at.join("pfs/plain").read_dir().is_ok_and(|mut left| left.next().is_some()));
}

fn killed(format: &str) {
    const FILE_COUNT: usize = 1000;
    let Some(disk) = Disk::new(format) else { return };
    (0..FILE_COUNT).for_each(|at| disk.write(&format!("{}/{at}", at % 7), &noise(3000 + at, at as u64)));
    disk.write("long", &noise(3_500_000, 1));
    let before = seen(&disk);
    for adopted in [1, FILE_COUNT / 3, FILE_COUNT / 2] {
        let mut child = disk.place.command(["adopt", "disk/own", "data"]).spawn().unwrap();
        let begun = || fs::read_dir(disk.at.join("pfs/plain")).map_or(0, |files| files.count());
        // Each file has a header.
        wait_until("some files are adopted", || begun() > 2 * adopted);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen(&disk) == before);
    }
    for (source, key, point) in [
        ("disk/own", "data", "put:written@20"),
        ("disk/own", "data", "put:committed@20"),
        ("disk/own/long", "data/long", "put:staged@2"),
    ] {
        let mut command = disk.place.command(["adopt", source, key]);
        let died =
            ran(command.env("TERRACE_FAIL_POINT", point).env("TERRACE_STAGE_BYTES", "1000000").output().unwrap());
        assert_ne!(died.code, 0, "{point}");
        assert!(seen(&disk) == before);
    }
    disk.adopt();
    disk.place.good(["check", "disk/own", "data"]);
    disk.place.good(["scrub"]);
    disk.place.good(["sync"]);
    // This gives back at once what nothing names. It would leave what killed ones have left.
    disk.place.good(["rm", "-r", "data"]);
    assert!(seen(&disk) == before);
    let left: Vec<PathBuf> =
        fs::read_dir(disk.at.join("pfs/plain")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn killed_while_it_links() {
    killed("tmpfs");
}

#[test]
fn killed_while_it_clones() {
    killed("btrfs");
}
