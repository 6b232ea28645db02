//! The kernel's page cache: what an opening sees after a change, by whomever.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use terrace_testkit::{Missing, Random, python_with, skip};

use crate::place::Place;

const FILE_BYTES: usize = 300_000;
const PAGE_BYTES: u64 = 4096;

/// Returns how many pages of a file the kernel has after one more opening of it. None if the program that tells is missing.
fn count_pages(path: &Path) -> Option<u64> {
    let output = match Command::new("fincore").args(["--noheadings", "--output", "PAGES"]).arg(path).output() {
        Ok(output) => output,
        Err(error) => {
            skip("counting cached pages", &Missing::new("programs", format!("fincore (util-linux): {error}")));
            return None;
        }
    };
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(words.trim().parse().unwrap())
}

/// A process that has a file open and mapped, and does both again when it is asked to.
struct Mapper {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const MAPPER_PROGRAM: &str = "
import hashlib, mmap, sys
while True:
    f = open(sys.argv[1], 'rb')
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
    print(hashlib.sha256(m[:]).hexdigest(), flush=True)
    if not sys.stdin.readline(): break
";

impl Mapper {
    fn start(python: &Path, path: &Path) -> Mapper {
        let mut command = Command::new(python);
        let mut child = command
            .args(["-c", MAPPER_PROGRAM])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (asks, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut mapper = Mapper { child, asks, answers };
        mapper.answer();
        mapper
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// The digest of the mapped bytes after one more opening.
    fn open_again(&mut self) -> String {
        self.asks.write_all(b"\n").unwrap();
        self.answer()
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The digest of bytes, as the mapper prints it.
fn digest(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// Each opening dropped the kernel's pages, so that reading a file again cost as much as reading it first.
#[test]
fn pages_of_a_file_stay_until_it_changes() {
    let Some(place) = Place::new() else { return };
    let _mounted = place.mount();
    let path = place.mount.join("f");
    let mut random = Random::new(1);
    let all = (FILE_BYTES as u64).div_ceil(PAGE_BYTES);
    for _ in 0..3 {
        let bytes = random.bytes(FILE_BYTES);
        fs::write(&path, &bytes).unwrap();
        for _ in 0..3 {
            assert!(fs::read(&path).unwrap() == bytes);
        }
        let Some(pages) = count_pages(&path) else { return };
        assert_eq!(pages, all, "an opening of the unchanged file keeps them");
        // One byte is enough.
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[bytes[7] ^ 1], 7).unwrap();
        drop(file);
        assert_eq!(count_pages(&path), Some(0), "an opening of the changed file drops them");
        let mut changed = bytes;
        changed[7] ^= 1;
        assert!(fs::read(&path).unwrap() == changed);
        // A change of a name, or of a time, is none of bytes.
        let other = place.mount.join("g");
        fs::rename(&path, &other).unwrap();
        assert!(fs::read(&other).unwrap() == changed);
        fs::rename(&other, &path).unwrap();
        assert!(fs::read(&path).unwrap() == changed);
    }
}

/// The ways in which `change` changes a file.
const CHANGE_NAMES: [&str; 10] = [
    "overwrite",
    "overwrite and keep the time",
    "truncate",
    "extend",
    "append",
    "empty and write",
    "rename over",
    "remove and create",
    "put",
    "hole",
];

/// Changes a file in one of the ways through another process, and returns its bytes from then on.
fn change(place: &Place, way: &str, path: &Path, before: &[u8], random: &mut Random) -> Vec<u8> {
    let name = path.file_name().unwrap();
    let new = random.bytes(before.len());
    let open = || File::options().write(true).open(path).unwrap();
    let joined = |first: &[u8], second: &[u8]| [first, second].concat();
    match way {
        "overwrite" => open().write_all_at(&new[..5000], 100).unwrap(),
        "overwrite and keep the time" => {
            let time = fs::metadata(path).unwrap().modified().unwrap();
            let file = open();
            file.write_all_at(&new[..5000], 100).unwrap();
            file.set_modified(time).unwrap();
        }
        "truncate" => open().set_len(before.len() as u64 / 2).unwrap(),
        "extend" => open().set_len(before.len() as u64 * 2).unwrap(),
        "append" => File::options().append(true).open(path).unwrap().write_all(&new).unwrap(),
        "empty and write" => fs::write(path, &new).unwrap(),
        "rename over" => {
            let other = path.with_extension("new");
            fs::write(&other, &new).unwrap();
            fs::rename(other, path).unwrap();
        }
        "remove and create" => {
            fs::remove_file(path).unwrap();
            fs::write(path, &new).unwrap();
        }
        "put" => {
            let from = place.dir.path().join("to-put");
            fs::write(&from, &new).unwrap();
            let output = place.terrace().arg("put").arg(from).arg(name).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        "hole" => {
            use rustix::fs::{FallocateFlags, fallocate};
            fallocate(open(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 8192, 100_000).unwrap();
        }
        other => panic!("{other}"),
    }
    match way {
        "overwrite" | "overwrite and keep the time" => [&before[..100], &new[..5000], &before[5100..]].concat(),
        "truncate" => before[..before.len() / 2].to_vec(),
        "extend" => joined(before, &vec![0; before.len()]),
        "append" => joined(before, &new),
        "hole" => [&before[..8192], &vec![0; 100_000], &before[108_192..]].concat(),
        _ => new,
    }
}

/// A second mount of the store is another process that changes its files; the kernel knows nothing of it at the first mount.
#[test]
fn the_next_opening_sees_what_another_process_has_changed() {
    let Some(place) = Place::new() else { return };
    let Some(python) = python_with("the_next_opening_sees_what_another_process_has_changed", "python", "mmap") else {
        return;
    };
    let second = place.dir.path().join("mnt2");
    fs::create_dir(&second).unwrap();
    let _mounts = [place.mount(), place.mount_on(&second)];
    let (path, theirs) = (place.mount.join("f"), second.join("f"));
    let copy = place.dir.path().join("expected");
    let mut random = Random::new(2);
    for way in CHANGE_NAMES.iter().cycle().take(3 * CHANGE_NAMES.len()) {
        let mut bytes = random.bytes(FILE_BYTES);
        fs::write(&theirs, &bytes).unwrap();
        for _ in 0..2 {
            assert!(fs::read(&path).unwrap() == bytes);
        }
        let mut mapper = Mapper::start(&python, &path);
        let held = File::open(&path).unwrap();
        let mut start = vec![0; 200_000.min(FILE_BYTES)];
        held.read_exact_at(&mut start, 0).unwrap();
        bytes = change(&place, way, &theirs, &bytes, &mut random);
        assert!(fs::read(&path).unwrap() == bytes, "{way}");
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64, "{way}");
        fs::write(&copy, &bytes).unwrap();
        assert_eq!(mapper.open_again(), digest(&copy), "mapped after: {way}");
        // A handle that was open all the time reads these bytes, too, or fails if its file is gone.
        let mut now = vec![0; start.len().min(bytes.len())];
        if held.read_exact_at(&mut now, 0).is_ok() {
            assert!(now == bytes[..now.len()], "{way}");
        }
    }
}

/// The same beside a process that uses the store only for the change, after which the kernel may trust the mount for a moment again.
#[test]
fn the_next_opening_sees_what_a_command_has_put() {
    let Some(place) = Place::new() else { return };
    let _mounted = place.mount();
    let path = place.mount.join("f");
    let mut random = Random::new(3);
    let mut bytes = random.bytes(FILE_BYTES);
    fs::write(&path, &bytes).unwrap();
    for round in 0..10 {
        for _ in 0..2 {
            assert!(fs::read(&path).unwrap() == bytes);
        }
        let length = bytes.len() + [0, 7000, 0][round % 3];
        bytes = change(&place, "put", &path, &random.bytes(length), &mut random);
        assert!(fs::read(&path).unwrap() == bytes, "round {round}");
    }
}

/// The number of words of a file. Each word is the number of the version that wrote it.
const WORD_COUNT: usize = 20_000;

fn version(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(WORD_COUNT)
}

/// Several readers open a file again and again while it is written: the reply to one opening makes the kernel drop pages, while another
/// opening is told that nothing has changed since. What was acknowledged before an opening began is never missing.
#[test]
fn no_opening_sees_less_than_was_acknowledged_before() {
    let Some(place) = Place::new() else { return };
    let second = place.dir.path().join("mnt2");
    fs::create_dir(&second).unwrap();
    let _mounts = [place.mount(), place.mount_on(&second)];
    let versions: u64 = std::env::var("TERRACE_MOUNT_VERSIONS").map_or(150, |text| text.parse().unwrap());
    for (name, writer) in [("own", &place.mount), ("other", &second)] {
        let (path, theirs) = (place.mount.join(name), writer.join(name));
        fs::write(&theirs, version(1)).unwrap();
        let (acknowledged, ended) = (AtomicU64::new(1), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| read_versions(&path, &acknowledged, &ended));
            }
            for number in 2..versions {
                let file = File::options().write(true).open(&theirs).unwrap();
                file.write_all_at(&version(number), 0).unwrap();
                // Closing it writes what is buffered.
                drop(file);
                acknowledged.store(number, Ordering::SeqCst);
            }
            ended.store(true, Ordering::SeqCst);
        });
        assert!(fs::read(&path).unwrap() == version(versions - 1));
    }
}

fn read_versions(path: &Path, acknowledged: &AtomicU64, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        let least = acknowledged.load(Ordering::SeqCst);
        let bytes = fs::read(path).unwrap();
        assert_eq!(bytes.len(), 8 * WORD_COUNT);
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let oldest = words.min().unwrap();
        assert!(oldest >= least, "version {oldest} was read, and {least} was acknowledged before the opening");
    }
}

/// The kernel still has pages of a mount whose server was killed. The next mount has none of them.
#[test]
fn pages_of_a_killed_mount_are_not_seen_through_the_next() {
    let Some(place) = Place::new() else { return };
    let path = place.mount.join("f");
    let mut random = Random::new(4);
    for round in 0..3 {
        let bytes = random.bytes(FILE_BYTES);
        let mounted = place.mount();
        fs::write(&path, &bytes).unwrap();
        let held = File::open(&path).unwrap();
        assert!(fs::read(&path).unwrap() == bytes && fs::read(&path).unwrap() == bytes);
        mounted.send(Signal::KILL);
        drop(mounted);
        assert!(File::open(&path).is_err(), "nobody answers");
        let bytes = change(&place, "put", &PathBuf::from("f"), &bytes, &mut random);
        let mut mounted = place.mount();
        assert!(fs::read(&path).unwrap() == bytes, "round {round}");
        assert!(fs::read(&path).unwrap() == bytes, "round {round}");
        drop(held);
        mounted.send(Signal::TERM);
        assert_eq!(mounted.ends(), 0);
    }
}

/// The owner of an origin's files changes them without Terrace.
#[test]
fn the_next_opening_sees_what_has_changed_at_an_origin() {
    let Some(place) = Place::new() else { return };
    let folder = place.dir.path().join("origin");
    fs::create_dir(&folder).unwrap();
    let mut random = Random::new(5);
    fs::write(folder.join("f"), random.bytes(FILE_BYTES)).unwrap();
    let output =
        place.terrace().args(["origin", "add", "far"]).arg(&folder).args(["--max-age", "0s"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let _mounted = place.mount();
    let path = place.mount.join("far/f");
    for round in 0..9 {
        let bytes = random.bytes(FILE_BYTES + [0, 7000, 0][round % 3]);
        match round % 2 {
            0 => fs::write(folder.join("f"), &bytes).unwrap(),
            _ => {
                fs::write(folder.join("new"), &bytes).unwrap();
                fs::rename(folder.join("new"), folder.join("f")).unwrap();
            }
        }
        for _ in 0..3 {
            assert!(fs::read(&path).unwrap() == bytes, "round {round}");
        }
    }
}
