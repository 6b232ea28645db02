//! What every target must do, whatever it is made of.

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::decorate::{Faults, Limits, Throttle};
use super::{Directory, Ids, Memory, Place, Target};
use crate::frame::{self, Header, Identity, Scratch, decode_range};

const STORE: u64 = 77;
const CAPACITY: u64 = 8 << 20;

struct Counter(AtomicU64);

impl Ids for Counter {
    fn next(&self) -> io::Result<u64> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn ids() -> Arc<dyn Ids> {
    Arc::new(Counter(AtomicU64::new(1)))
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u64).wrapping_mul(seed * 2 + 1).wrapping_shr(5) as u8).collect()
}

fn append(target: &dyn Target, write: u64, raw: &[u8]) -> io::Result<Place> {
    let mut scratch = Scratch::default();
    let identity = Identity { object: 5, write, offset: 0, replica: 0 };
    target.append(&frame::encode(identity, terrace_codec::Encoding::NONE, raw, &mut scratch).expect("encodes"))
}

fn read(target: &dyn Target, place: Place, write: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut whole = vec![0; place.length as usize];
    target.read(place, 0, &mut whole)?;
    let header = Header::read(&whole, STORE, place).map_err(io::Error::other)?;
    assert_eq!(header.identity.write, write, "another frame stands in this place");
    let mut out = vec![0; length];
    let head = header.written_len() as u32;
    decode_range(&header, 0, &mut out, &mut Scratch::default(), |range, into| {
        target.read(place, head + range.start, into)
    })?;
    Ok(out)
}

fn scan(target: &dyn Target) -> BTreeSet<(u64, Place)> {
    let mut found = BTreeSet::new();
    target.scan(&mut |place, header| assert!(found.insert((header.identity.write, place)))).expect("scans");
    found
}

fn check(target: &dyn Target) {
    let lengths = [1, 100, 4096, 5000, 65_536, 65_537, 300_000, 1 << 20];
    let mut placed = Vec::new();
    for (write, length) in (1u64..).zip(lengths) {
        placed.push((write, length, append(target, write, &bytes(write, length)).expect("appends")));
    }
    let threads: Vec<Vec<(u64, usize, Place)>> = std::thread::scope(|scope| {
        let spawn = |thread: u64| {
            scope.spawn(move || {
                let one = |n: u64| {
                    (thread * 1000 + n, 3000, append(target, thread * 1000 + n, &bytes(n, 3000)).expect("appends"))
                };
                (0..20).map(one).collect()
            })
        };
        let handles: Vec<_> = (1..5).map(spawn).collect();
        handles.into_iter().map(|h| h.join().expect("a thread")).collect()
    });
    for (thread, written) in (1u64..).zip(threads) {
        for (write, length, place) in written {
            assert_eq!(read(target, place, write, length).expect("reads"), bytes(write - thread * 1000, length));
            placed.push((write, 0, place));
        }
    }
    for &(write, length, place) in placed.iter().filter(|(_, length, _)| *length > 0) {
        assert_eq!(read(target, place, write, length).expect("reads"), bytes(write, length), "{length} bytes");
    }
    assert_eq!(scan(target), placed.iter().map(|&(write, _, place)| (write, place)).collect());
    let segments: BTreeSet<u64> = placed.iter().map(|(.., place)| place.segment).collect();
    target.sync(&segments.iter().copied().collect::<Vec<_>>()).expect("syncs");

    let before = target.space().expect("space");
    let freed: Vec<_> = placed.iter().filter(|(_, length, _)| *length >= 65_536).collect();
    let places: Vec<Place> = freed.iter().map(|(.., place)| *place).collect();
    target.free(&places).expect("frees");
    target.free(&places).expect("freeing twice does no harm");
    assert!(target.space().expect("space").used + (1 << 20) < before.used, "space comes back");
    for (write, length, place) in &freed {
        assert!(read(target, *place, *write, *length).is_err(), "a freed frame still reads");
    }
    let left: BTreeSet<_> =
        placed.iter().filter(|p| !places.contains(&p.2)).map(|&(write, _, place)| (write, place)).collect();
    assert_eq!(scan(target), left);

    let block = bytes(3, 1 << 20);
    let full = (0..20).find_map(|n| append(target, 9000 + n, &block).err()).expect("a full target");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let absent = Place { segment: u64::MAX, offset: 0, length: 100 };
    assert_eq!(read(target, absent, 0, 10).expect_err("absent").kind(), io::ErrorKind::NotFound);
}

fn directory(root: &Path) -> (Arc<dyn Target>, Box<dyn Any>) {
    let folder = tempfile::tempdir_in(root).expect("a folder");
    let target = Directory::create(&folder.path().join("t"), STORE, 1, CAPACITY, ids()).expect("a target");
    (Arc::new(target), Box::new(folder))
}

#[test]
fn directory_on_disk() {
    let (target, _folder) = directory(&std::env::temp_dir());
    check(&*target);
}

#[test]
fn directory_on_tmpfs() {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        let (target, _folder) = directory(shared);
        check(&*target);
    }
}

#[test]
fn memory() {
    check(&Memory::new(STORE, CAPACITY, ids()));
}

#[test]
fn throttled() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits { read: Some(10_000_000_000), write: Some(10_000_000_000), ..Limits::default() };
    let inner = Arc::new(Memory::new(STORE, CAPACITY, ids()));
    check(&Throttle::new(inner, limits, &folder.path().join("state")).expect("a throttle"));
}

#[test]
fn with_faults_that_are_not_set() {
    check(&Faults::new(Arc::new(Memory::new(STORE, CAPACITY, ids()))));
}

#[test]
fn another_stores_directory_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    Directory::create(folder.path(), 1, 1, CAPACITY, ids()).expect("the first");
    Directory::create(folder.path(), 1, 1, CAPACITY, ids()).expect("the same again");
    assert!(Directory::create(folder.path(), 2, 1, CAPACITY, ids()).is_err());
}
