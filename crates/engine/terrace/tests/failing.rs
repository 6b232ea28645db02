//! Every call that reads, writes, opens, syncs or renames a file fails once, in turn: what was acknowledged is there
//! afterwards, and what was not is there whole or not at all. `TERRACE_CALLS` is the share tried, in percent (`make soak`: 100).

#![allow(clippy::unwrap_used, unsafe_code)]

mod common;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use terrace::{Ack, Config, PutOptions, Store};

/// Calls until one fails; below 0 where none is to.
static CALLS_LEFT: AtomicI64 = AtomicI64::new(-1);
static ERROR_NUMBER: AtomicI64 = AtomicI64::new(0);
/// Only what lies below fails.
static ROOT_FOLDER: Mutex<String> = Mutex::new(String::new());

/// Whether the last write of each commit fails of the catalog whose path this is.
static LAST_WRITES: AtomicBool = AtomicBool::new(false);
static CATALOG_FOLDER: Mutex<String> = Mutex::new(String::new());

/// Whether this call is the one.
fn fails(path: impl FnOnce() -> String) -> bool {
    if CALLS_LEFT.load(Ordering::Acquire) < 0 || !path().starts_with(ROOT_FOLDER.lock().unwrap().as_str()) {
        return false;
    }
    let now = CALLS_LEFT.fetch_sub(1, Ordering::AcqRel) == 0;
    if now {
        // SAFETY: this thread's own error number.
        unsafe { *libc::__errno_location() = ERROR_NUMBER.load(Ordering::Acquire) as c_int };
    }
    now
}

fn path_of(fd: c_int) -> String {
    // Not through std, which would come back here.
    let link = format!("/proc/self/fd/{fd}\0");
    let mut buffer = [0u8; 512];
    // SAFETY: the link ends in 0, and the buffer is as long as is said.
    let length = unsafe { libc::readlink(link.as_ptr().cast(), buffer.as_mut_ptr().cast(), buffer.len()) };
    String::from_utf8_lossy(&buffer[..length.max(0) as usize]).into_owned()
}

// SAFETY of all of these: they do what the C library's functions do, by the same system calls with the same arguments, or
// fail as those may.

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    if fails(|| path_of(fd)) { -1 } else { unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int } }
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    if fails(|| path_of(fd)) { -1 } else { unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, length: usize, offset: i64) -> isize {
    if fails(|| path_of(fd)) {
        return -1;
    }
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, length, offset) as isize }
}

/// LMDB writes the catalog by this; what is so short is the last write of a commit.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, length: usize, offset: i64) -> isize {
    if length < 1000
        && LAST_WRITES.load(Ordering::Acquire)
        && path_of(fd).starts_with(CATALOG_FOLDER.lock().unwrap().as_str())
    {
        // SAFETY: this thread's own error number.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    unsafe { pwrite64(fd, bytes, length, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, parts: *const libc::iovec, count: c_int, offset: i64) -> isize {
    if fails(|| path_of(fd)) {
        return -1;
    }
    unsafe { libc::syscall(libc::SYS_pwritev, fd, parts, count, offset, 0) as isize }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, bytes: *mut c_void, length: usize, offset: i64) -> isize {
    if fails(|| path_of(fd)) {
        return -1;
    }
    unsafe { libc::syscall(libc::SYS_pread64, fd, bytes, length, offset) as isize }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    if fails(|| unsafe { CStr::from_ptr(path) }.to_string_lossy().into_owned()) {
        return -1;
    }
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    if fails(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()) {
        return -1;
    }
    let here = libc::AT_FDCWD;
    unsafe { libc::syscall(libc::SYS_renameat, here, from, here, to) as c_int }
}

type Model = BTreeMap<&'static str, Vec<u8>>;
type Step = (fn(&Store) -> terrace::Result<()>, fn(&mut Model));

fn bytes(length: u32, seed: u32) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(i + seed) >> 7) as u8).collect()
}

fn put(store: &Store, key: &str, bytes: &[u8], ack: Ack) -> terrace::Result<()> {
    store.put_bytes(key.as_bytes(), bytes, &PutOptions { ack: Some(ack), ..PutOptions::default() }).map(|_| ())
}

fn overwrite(model: &mut Model, key: &'static str, at: usize, bytes: &[u8]) {
    let file = model.entry(key).or_default();
    file.resize(file.len().max(at + bytes.len()), 0);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Each step, and what it makes of a plain map.
const ALL_STEPS: [Step; 12] = [
    (|s| put(s, "a", &bytes(5000, 1), Ack::Placed), |m| drop(m.insert("a", bytes(5000, 1)))),
    (|s| put(s, "b", &bytes(1_300_000, 2), Ack::Replicated), |m| drop(m.insert("b", bytes(1_300_000, 2)))),
    (|s| put(s, "a", &bytes(90_000, 3), Ack::Durable), |m| drop(m.insert("a", bytes(90_000, 3)))),
    (
        |s| s.write_at(b"b", 700_000, &bytes(100_000, 4), &PutOptions::default()).map(|_| ()),
        |m| overwrite(m, "b", 700_000, &bytes(100_000, 4)),
    ),
    (|s| put(s, "c", &bytes(100, 5), Ack::Replicated), |m| drop(m.insert("c", bytes(100, 5)))),
    (|s| s.sync(), |_| {}),
    (
        |s| s.rename(b"c", b"d"),
        |m| {
            if let Some(bytes) = m.remove("c") {
                m.insert("d", bytes);
            }
        },
    ),
    (|s| s.evict(b"", "ram").map(|_| ()), |_| {}),
    (|s| s.remove(b"a"), |m| drop(m.remove("a"))),
    (|s| s.compact(), |_| {}),
    (|s| s.sync(), |_| {}),
    (|s| s.reap_now(), |_| {}),
];

fn contents(store: &Store) -> Model {
    let name = |key: &[u8]| ["a", "b", "c", "d"].into_iter().find(|name| name.as_bytes() == key).unwrap();
    let objects = store.list(b"", None, 100).unwrap().into_iter();
    objects.map(|(key, _)| (name(&key), store.get(&key).unwrap())).collect()
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn tail_and_dump(store: &Store) -> (u64, Records) {
    (store.catalog().tail().unwrap().sequence, store.catalog().dump().unwrap())
}

/// Runs all steps while the `call`-th call fails; false where there were fewer.
fn try_out(root: &Path, call: i64, error: c_int) -> bool {
    let d = root.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n"
    );
    let home = root.join("store");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    ERROR_NUMBER.store(error.into(), Ordering::Release);
    CALLS_LEFT.store(call, Ordering::Release);
    let done: Vec<terrace::Result<()>> = ALL_STEPS.iter().map(|(step, _)| step(&store)).collect();
    let reached = CALLS_LEFT.swap(-1, Ordering::AcqRel) < 0;
    drop(store);
    let store = Store::open(&home).unwrap();
    let found = contents(&store);
    let failed: Vec<usize> = (0..ALL_STEPS.len()).filter(|&step| done[step].is_err()).collect();
    let explained = (0u32..1 << failed.len()).any(|subset| {
        let mut model = Model::new();
        for (index, (_, apply)) in ALL_STEPS.iter().enumerate() {
            let failed = failed.iter().position(|&f| f == index);
            if failed.is_none_or(|bit| subset >> bit & 1 == 1) {
                apply(&mut model);
            }
        }
        model == found
    });
    let lengths = || found.iter().map(|(key, bytes)| (*key, bytes.len())).collect::<Vec<_>>();
    let said = || failed.iter().map(|&f| format!("step {f}: {}", done[f].as_ref().unwrap_err())).collect::<Vec<_>>();
    assert!(explained, "call {call}, error {error}: found {:?}; {:?}", lengths(), said());
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!(scrubbed.lost, 0, "call {call}, error {error}: {:?}", said());
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "call {call}, error {error}: {:?}", said());
    drop(store);
    let (end, dump) = tail_and_dump(&Store::open(&home).unwrap());
    let (rebuilt_end, rebuilt) = tail_and_dump(&Store::rebuild(&home).unwrap());
    // The record of a commit that failed may lie at the log's end.
    let one_more = rebuilt_end == end + 1 && !failed.is_empty();
    assert!(one_more || rebuilt == dump, "call {call}, error {error}: {:?}", said());
    reached
}

#[test]
fn every_call_fails_in_turn() {
    let share: i64 = std::env::var("TERRACE_CALLS").map_or(10, |text| text.parse().unwrap());
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }).unwrap();
    *ROOT_FOLDER.lock().unwrap() = folder.path().display().to_string();
    let (mut call, mut tried, mut past_the_end) = (0, 0, 0);
    while past_the_end < 3 {
        let root = folder.path().join(call.to_string());
        fs::create_dir(&root).unwrap();
        let error = [libc::EIO, libc::ENOSPC][(tried % 2) as usize];
        past_the_end = if try_out(&root, call, error) { 0 } else { past_the_end + 1 };
        fs::remove_dir_all(&root).unwrap();
        tried += 1;
        // A share of the calls, spread over all.
        call += 1 + tried * 7 % (200 / share - 1);
    }
    println!("{tried} calls failed of about {call}: what was acknowledged was there");
}

#[test]
fn a_process_goes_on_after_lmdb_has_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let value = |n: usize| terrace_testkit::noise(1000 + n, 7);
    put(&store, "a", &value(0), Ack::Placed).unwrap();
    *CATALOG_FOLDER.lock().unwrap() = store.dir().join("catalog").display().to_string();
    for round in 1..20 {
        LAST_WRITES.store(true, Ordering::Release);
        let failed = put(&store, "a", &value(round), Ack::Placed).unwrap_err().to_string();
        assert!(failed.contains("catalog"), "{failed}");
        LAST_WRITES.store(false, Ordering::Release);
        // Many threads meet it at once; each of them works on.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, value) = (store.clone(), &value);
                scope.spawn(move || {
                    let found = store.get(b"a").unwrap();
                    assert!([value(round - 1), value(round)].contains(&found), "thread {thread}, round {round}");
                    store.put_bytes(format!("t{thread}").as_bytes(), &found, &PutOptions::default()).unwrap();
                });
            }
        });
        put(&store, "a", &value(round), Ack::Placed).unwrap();
    }
    store.sync().unwrap();
    let before = store.catalog().dump().unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    assert!(store.catalog().dump().unwrap() == before);
    assert!(store.get(b"a").unwrap() == value(19));
}
