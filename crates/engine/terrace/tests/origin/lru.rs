//! A cache that is smaller than what is read fetches little more than one that drops exactly what was not read for the longest time.

use std::fs;
use std::process::{Command, Stdio};

use terrace::Store;
use terrace_testkit::{Random, noise};

use super::ASK_ONCE;
use super::common::{check_and_rebuild, store_of, tier};
use super::web_server::WebServer;

/// The unit in which short reads are fetched, as the guide says.
const UNIT_BYTES: u64 = 64 << 10;
const CACHE_BYTES: u64 = 16 << 20;
const FILE_BYTES: u64 = 32 << 20;
const UNIT_COUNT: u64 = FILE_BYTES / UNIT_BYTES;
const READ_COUNT: u64 = 3000;

/// A cache of whole units that drops the one that was not read for the longest time.
struct Lru {
    /// The last one was read last.
    units: Vec<u64>,
    fetched: u64,
}

impl Lru {
    fn read(&mut self, unit: u64) {
        match self.units.iter().position(|known| *known == unit) {
            Some(at) => drop(self.units.remove(at)),
            None => self.fetched += UNIT_BYTES,
        }
        self.units.push(unit);
        if self.units.len() as u64 > CACHE_BYTES / UNIT_BYTES {
            self.units.remove(0);
        }
    }
}

/// Reads by which a cache gains something: of all units alike, of some more than of others, and of some that change with time.
fn trace(kind: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut order: Vec<u64> = (0..UNIT_COUNT).collect();
    random.shuffle(&mut order);
    let unit = |at: u64| -> u64 {
        match kind {
            0 => random.below(UNIT_COUNT),
            1 => order[(UNIT_COUNT as f64 * random.unit().powi(3)) as usize],
            _ => order[((at / 600 * 150 + random.below(180)) % UNIT_COUNT) as usize],
        }
    };
    (0..READ_COUNT).map(unit).collect()
}

#[test]
fn reads_here_and_there_fetch_little_more_than_an_lru_cache_of_that_size() {
    for kind in 0..3 {
        let server = WebServer::start();
        let bytes = noise(FILE_BYTES as usize, 1);
        server.put("pub/f", bytes.clone());
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        // A tier that holds nothing else may be full.
        let more = format!("capacity = '{}MiB'\nhigh_watermark = 1.0", CACHE_BYTES >> 20);
        let store = store_of(dir, &[tier(dir, "disk", &["disk"], &more)]);
        store.add_origin("web", &server.url("pub"), Default::default(), Some(ASK_ONCE)).unwrap();
        let (mut lru, mut random) = (Lru { units: Vec::new(), fetched: 0 }, Random::new(9));
        for unit in trace(kind, 7 + kind) {
            let mut part = vec![0; 1 + random.below(4000) as usize];
            let at = unit * UNIT_BYTES + random.below(UNIT_BYTES - part.len() as u64);
            store.read_at(b"web/f", at, &mut part).unwrap();
            assert!(part == bytes[at as usize..at as usize + part.len()]);
            lru.read(unit);
        }
        let served: u64 = server.served("pub/f").iter().map(|(start, end)| end - start).sum();
        println!("trace {kind}: {} MiB fetched, {} MiB by LRU", served >> 20, lru.fetched >> 20);
        assert!(served as f64 <= 1.1 * lru.fetched as f64, "trace {kind}: {served} bytes, {} by LRU", lru.fetched);
        let stored = store.origins().unwrap()[0].cached;
        assert!(stored <= CACHE_BYTES, "{stored}");
        store.close().unwrap();
    }
}

/// A process that is killed while it makes room for what it has fetched leaves a store that reads all.
#[test]
fn a_reader_that_is_killed_while_it_makes_room_leaves_a_good_store() {
    for point in ["uncache:committed", "reap:freed"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("origin")).unwrap();
        let bytes = noise(8 << 20, 3);
        fs::write(dir.join("origin/f"), &bytes).unwrap();
        let store = store_of(dir, &[tier(dir, "disk", &["disk"], "capacity = '4MiB'")]);
        store.add_origin("o", dir.join("origin").to_str().unwrap(), Default::default(), Some(ASK_ONCE)).unwrap();
        store.close().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "lru::killed_child", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
        child.env("TEST_LRU_STORE", dir.join("store")).env("TERRACE_FAIL_POINT", point);
        assert!(!child.status().unwrap().success(), "{point} was not reached");
        let store = Store::open(&dir.join("store")).unwrap();
        assert!(store.get(b"o/f").unwrap() == bytes, "{point}");
        let store = check_and_rebuild(store, dir);
        assert!(store.get(b"o/f").unwrap() == bytes, "{point}");
    }
}

#[test]
fn killed_child() {
    let Ok(home) = std::env::var("TEST_LRU_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    for _ in 0..20 {
        for at in (0..8u64 << 20).step_by(100_000) {
            store.read_at(b"o/f", at, &mut [0; 10]).unwrap();
        }
    }
}
