//! kill -9: real processes write, die at random moments and at every fail point, and what they had acknowledged is
//! compared with an outside journal. `TERRACE_KILLS` sets how many die (`make soak`); `TERRACE_SEED` repeats a run.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::Random;

const KEY_COUNT: u64 = 8;
const FAIL_POINTS: [&str; 21] = [
    "commit:logged",
    "put:written",
    "put:committed",
    "mover:copied",
    "mover:committed",
    "evict:committed",
    "reap:freed",
    "sync:frames",
    "sync:log",
    "put:staged",
    "snapshot:written",
    "snapshot:named",
    "snapshot:trimmed",
    "plain:written",
    "plain:committed",
    "expiry:found",
    "copy:staged",
    "copy:committed",
    "upload:part",
    "upload:completed",
    "segment:torn",
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug)]
enum Operation {
    Put(Vec<u8>, Vec<u8>, Ack),
    Write(Vec<u8>, u64, Vec<u8>),
    Remove(Vec<u8>),
    Rename(Vec<u8>, Vec<u8>),
    Copy(Vec<u8>, Vec<u8>),
    /// An upload of three parts, one of them put twice.
    Upload(Vec<u8>, [Vec<u8>; 3]),
    SetLength(Vec<u8>, u64),
    Clear(Vec<u8>, u64, u64),
    /// Puts an object that has expired already, and removes it.
    Expire(Vec<u8>, Vec<u8>),
    /// Puts an object that has expired already, and one in its place that never does.
    Replace(Vec<u8>, Vec<u8>),
    Sync,
    Reap,
    Compact,
}

/// The operation that a seed stands for; `who` keeps the keys of two writers apart.
fn operation(who: u64, seed: u64) -> Operation {
    let mut random = Random::new(seed);
    let mut key = || format!("w{who}/k{}", random.below(KEY_COUNT)).into_bytes();
    let (key, other) = (key(), key());
    let bytes = |random: &mut Random, most: u64| -> Vec<u8> {
        let length = random.below(most);
        let flat = random.below(2) == 0;
        (0..length).map(|i| if flat { (i / 50) as u8 } else { random.bits() as u8 }).collect()
    };
    match random.below(29) {
        0..=8 => {
            let ack = [Ack::Placed, Ack::Placed, Ack::Replicated, Ack::Durable][random.below(4) as usize];
            let most = [5_000, 5_000, 80_000, 2_500_000][random.below(4) as usize];
            Operation::Put(key, bytes(&mut random, most), ack)
        }
        9..=12 => {
            let at = random.below(200_000);
            Operation::Write(key, at, bytes(&mut random, 60_000))
        }
        13 | 14 => Operation::Remove(key),
        15 | 16 => Operation::Rename(key, other),
        17 => Operation::SetLength(key, random.below(100_000)),
        18 => Operation::Sync,
        19 => Operation::Clear(key, random.below(100_000), random.below(200_000)),
        20 => Operation::Expire(key, bytes(&mut random, 5_000)),
        21 | 22 => Operation::Replace(key, bytes(&mut random, 5_000)),
        23..=25 => Operation::Copy(key, other),
        26 | 27 => {
            let most = [5_000, 80_000, 1_500_000][random.below(3) as usize];
            let parts = [most, 5_000, most].map(|most| bytes(&mut random, most));
            Operation::Upload(key, parts)
        }
        _ if random.below(2) == 0 => Operation::Compact,
        _ => Operation::Reap,
    }
}

fn run(store: &Store, operation: &Operation) -> terrace::Result<()> {
    let options = |ack| PutOptions { ack: Some(ack), ..PutOptions::default() };
    let describe = |bytes: &[u8], expiry| {
        let attributes = common::described(bytes, expiry);
        PutOptions { attributes: Some(attributes), ..options(Ack::Placed) }
    };
    match operation {
        Operation::Put(key, bytes, ack) => {
            let described = PutOptions { ack: Some(*ack), ..describe(bytes, Some(u64::MAX)) };
            store.put_bytes(key, bytes, &described).map(|_| ())
        }
        Operation::Expire(key, bytes) => {
            store.put_bytes(key, bytes, &describe(bytes, Some(1)))?;
            store.remove_expired(usize::MAX).map(|_| ())
        }
        Operation::Replace(key, bytes) => {
            store.put_bytes(key, bytes, &describe(bytes, Some(1)))?;
            // The background threads of both processes may remove the first one meanwhile, and must not remove the second.
            store.put_bytes(key, bytes, &describe(bytes, None)).map(|_| ())
        }
        Operation::Write(key, at, bytes) => store.write_at(key, *at, bytes, &options(Ack::Placed)).map(|_| ()),
        Operation::Remove(key) => store.remove(key),
        Operation::Rename(from, to) => store.rename(from, to),
        Operation::Copy(from, to) => store.copy(from, to),
        Operation::Upload(key, [first, second, third]) => {
            let placed = options(Ack::Placed);
            let upload = store.begin_upload(key, &placed, None)?;
            let put = |number, bytes: &[u8]| {
                let digest = common::described(bytes, None);
                store.put_part(upload, number, bytes, &placed, |attributes| attributes.take_digests(&digest))
            };
            put(5, third)?;
            put(3, first)?;
            let parts = [put(1, first)?, put(3, second)?, put(5, third)?];
            let parts = parts.map(|part| (part.number, part.object.etag()));
            let whole = common::described(&[first.as_slice(), second, third].concat(), None);
            store.complete_upload(upload, &parts, &placed, |attributes| attributes.take_digests(&whole)).map(drop)
        }
        Operation::SetLength(key, length) => store.set_length(key, *length),
        Operation::Clear(key, at, length) => common::clear(store, key, *at, *length),
        Operation::Sync => store.sync(),
        Operation::Reap => store.reap_now(),
        Operation::Compact => store.compact(),
    }
}

/// The slow, obvious store.
fn model(model: &mut Model, operation: &Operation) {
    match operation {
        Operation::Put(key, bytes, _) | Operation::Replace(key, bytes) => {
            model.insert(key.clone(), bytes.clone());
        }
        Operation::Write(key, at, bytes) => {
            let file = model.entry(key.clone()).or_default();
            // A write of no bytes extends nothing.
            if !bytes.is_empty() {
                file.resize(file.len().max(*at as usize + bytes.len()), 0);
                file[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
            }
        }
        Operation::Remove(key) | Operation::Expire(key, _) => {
            model.remove(key);
        }
        Operation::Rename(from, to) => {
            if let Some(bytes) = model.remove(from) {
                model.insert(to.clone(), bytes);
            }
        }
        Operation::Copy(from, to) => {
            if let Some(bytes) = model.get(from).cloned() {
                model.insert(to.clone(), bytes);
            }
        }
        Operation::Upload(key, parts) => {
            model.insert(key.clone(), parts.concat());
        }
        Operation::SetLength(key, length) => {
            if let Some(file) = model.get_mut(key) {
                file.resize(*length as usize, 0);
            }
        }
        Operation::Clear(key, at, length) => {
            if let Some(file) = model.get_mut(key) {
                common::clear_in(file, *at, *length);
            }
        }
        Operation::Sync | Operation::Reap | Operation::Compact => {}
    }
}

fn config(dir: &Path) -> Config {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 5, default = 2 }}\n\
         [[rule]]\nprefix = 'w0'\nlayout = 'plain'\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\ncapacity = '6MiB'\nhigh_watermark = 0.5\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n"
    );
    Config::parse(&text, "test").unwrap()
}

/// Not a test of its own: what the processes that are killed run.
#[test]
fn writer() {
    let Ok(text) = std::env::var("TERRACE_WRITER") else { return };
    let mut words = text.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (who, first) = (number(), number());
    let dir = Path::new(words.next().unwrap());
    let mut journal = OpenOptions::new().create(true).append(true).open(dir.join(format!("journal-{who}"))).unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    for seed in first.. {
        let operation = operation(who, seed);
        journal.write_all(format!("{seed} begins\n").as_bytes()).unwrap();
        match run(&store, &operation) {
            Ok(()) | Err(terrace::Error::NotFound { .. }) => {}
            Err(e) => panic!("{operation:?}: {e}"),
        }
        journal.write_all(format!("{seed} ends\n").as_bytes()).unwrap();
    }
}

fn spawn(dir: &Path, who: u64, first: u64, fail_point: Option<String>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture"]).stdout(Stdio::null());
    command.stderr(File::create(dir.join(format!("stderr-{who}"))).unwrap());
    // Small enough that each happens often.
    command.env("TERRACE_LOG_FILE", "30000").env("TERRACE_STAGE_BYTES", "1000000");
    command.env("TERRACE_SHARED_EXTENTS", "2");
    command.env("TERRACE_WRITER", format!("{who} {first} {}", dir.display()));
    if let Some(point) = fail_point {
        command.env("TERRACE_FAIL_POINT", point);
    }
    command.spawn().unwrap()
}

/// Applies what the journal acknowledges from seed `next` on; the operation that was begun and not acknowledged.
fn catch_up(dir: &Path, who: u64, next: &mut u64, plain: &mut Model, acknowledged: &mut u64) -> Option<Operation> {
    let journal = fs::read_to_string(dir.join(format!("journal-{who}"))).unwrap_or_default();
    let mut open = None;
    for line in journal.lines() {
        let (seed, what) = line.split_once(' ').unwrap();
        let seed: u64 = seed.parse().unwrap();
        if seed < *next {
            continue;
        }
        if what == "ends" {
            model(plain, &operation(who, seed));
            *acknowledged += 1;
            *next = seed + 1;
            open = None;
        } else {
            open = Some(seed);
        }
    }
    if let Some(seed) = open {
        *next = seed + 1;
    }
    open.map(|seed| operation(who, seed))
}

fn contents(store: &Store, who: u64) -> Model {
    let keys = store.list(format!("w{who}").as_bytes(), None, 1000).unwrap();
    keys.into_iter()
        .map(|(key, object)| {
            let bytes = store.get(&key).unwrap();
            common::check_digest(&object, &bytes);
            (key, bytes)
        })
        .collect()
}

/// Aborts what dead writers have begun and counts it. All that is there of it has its bytes.
fn end_uploads(store: &Store, count: &mut u64) {
    for upload in store.list_uploads(b"").unwrap() {
        let folder = format!(".terrace/uploads/{}", upload.id);
        let parts = store.list_parts(upload.id, None, 10).unwrap();
        let keys = store.list(folder.as_bytes(), None, 10).unwrap();
        assert_eq!(keys.len(), 1 + parts.len());
        for (key, part) in &keys[1..] {
            common::check_digest(part, &store.get(key).unwrap());
        }
        store.abort_upload(upload.id).unwrap();
        *count += 1;
    }
}

/// The plain files of the first writer's objects, as they are on the disk.
fn plain_files(dir: &Path) -> Model {
    let folders = ["a", "b"].map(|target| dir.join(target).join("files/w0"));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let read = |entry: fs::DirEntry| {
        (format!("w0/{}", entry.file_name().to_str().unwrap()).into_bytes(), fs::read(entry.path()).unwrap())
    };
    entries.map(|entry| read(entry.unwrap())).collect()
}

fn differing(a: &Model, b: &Model) -> Vec<String> {
    let keys = a.keys().chain(b.keys());
    let show = |m: &Model, k: &Vec<u8>| m.get(k).map(|v| v.len());
    keys.filter(|k| a.get(*k) != b.get(*k))
        .map(|k| format!("{:?}: {:?} and {:?} bytes", String::from_utf8_lossy(k), show(a, k), show(b, k)))
        .collect()
}

#[test]
fn what_was_acknowledged_survives_the_death_of_its_writers() {
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(100, |n| n.parse().unwrap());
    let seed: u64 = std::env::var("TERRACE_SEED").map_or(1, |n| n.parse().unwrap());
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    Store::init(&dir.join("store"), &config(dir)).unwrap();
    let mut plain = [Model::new(), Model::new()];
    let mut next = [seed << 32; 2];
    let (mut killed, mut acknowledged, mut rebuilds, mut ahead, mut uploads) = (0, 0, 0, 0, 0);
    let mut died_at: BTreeMap<String, u64> = BTreeMap::new();
    // On a busy machine a point may be missed several times.
    let wants_all = kills >= 4 * FAIL_POINTS.len() as u64;
    while killed < kills || wants_all && died_at.len() < FAIL_POINTS.len() && killed < 3 * kills {
        let round = killed / 2;
        let point = (round % 2 == 1).then(|| {
            let turn = (round / 2) as usize;
            let missed = FAIL_POINTS.iter().find(|name| turn >= FAIL_POINTS.len() && !died_at.contains_key(**name));
            let name = missed.copied().unwrap_or(FAIL_POINTS[turn % FAIL_POINTS.len()]);
            let rare = ["snapshot", "evict", "copy", "upload"].iter().any(|kind| name.starts_with(kind));
            let most = if missed.is_some() {
                1
            } else if rare {
                2
            } else {
                8
            };
            format!("{name}@{}", 1 + random.below(most))
        });
        // The first writer's objects are plain files, which are never shared; the second one's are frames.
        let victim = match &point {
            Some(name) if name.starts_with("plain") => 0,
            Some(name) if name.starts_with("copy") => 1,
            _ => random.below(2) as usize,
        };
        let point_of = |who| point.clone().filter(|_| who == victim);
        let mut writers = [0, 1].map(|who| spawn(dir, who, next[who as usize], point_of(who as usize)));
        std::thread::sleep(Duration::from_millis(60 + random.below(250)));
        let begin = Instant::now();
        while point.is_some()
            && begin.elapsed() < Duration::from_secs(5)
            && writers[victim].try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        for (who, writer) in writers.iter_mut().enumerate() {
            let status = writer.try_wait().unwrap();
            // Death by a signal, here or at a fail point, is what was asked for; an error is not.
            let says = fs::read_to_string(dir.join(format!("stderr-{who}"))).unwrap();
            assert!(status.is_none_or(|s| s.code().is_none()), "round {round}, writer {who}: {says}");
            writer.kill().unwrap();
            if writer.wait().unwrap().signal() == Some(libc::SIGABRT) {
                let name = point.as_deref().unwrap().split('@').next().unwrap();
                *died_at.entry(name.to_owned()).or_default() += 1;
            }
            killed += 1;
        }
        let rebuild = round % 5 == 4 || point.as_ref().is_some_and(|p| p.starts_with("commit:logged"));
        let mut store = Store::open(&dir.join("store")).unwrap();
        if rebuild {
            let (tail, before) = (store.catalog().tail().unwrap(), store.catalog().dump().unwrap());
            let mut records = 0;
            let count = |_| {
                records += 1;
                Ok::<_, terrace::Error>(())
            };
            let end = store.catalog().log().replay(tail, count).unwrap();
            assert!(records <= 1, "round {round}: the log is more than one group of commits ahead");
            drop(store);
            store = Store::rebuild(&dir.join("store")).unwrap();
            let after = store.catalog().dump().unwrap();
            rebuilds += 1;
            let mut begun = Vec::new();
            let note = |record: terrace::log::Record| {
                begun.extend(record.commits);
                Ok::<_, terrace::Error>(())
            };
            store.catalog().log().replay(end, note).unwrap();
            // What of the group has lost its bytes is noted, and what it has staged is given back.
            assert!(begun.len() as u64 <= 2 * records, "round {round}: after a rebuild, commits of {begun:?}");
            if records == 0 {
                let differing = common::differing(&before, &after);
                assert!(differing.is_empty(), "round {round}: the rebuilt catalog differs: {differing}");
            } else {
                ahead += 1;
            }
        }
        // A writer that died may have left some.
        store.remove_expired(usize::MAX).unwrap();
        end_uploads(&store, &mut uploads);
        for who in [0, 1] {
            let slot = who as usize;
            let open = catch_up(dir, who, &mut next[slot], &mut plain[slot], &mut acknowledged);
            let found = contents(&store, who);
            if found != plain[slot] {
                let mut after = plain[slot].clone();
                if let Some(operation) = &open {
                    model(&mut after, operation);
                }
                // It died between its two puts.
                if let Some(Operation::Replace(key, _)) = &open
                    && !found.contains_key(key)
                {
                    after.remove(key);
                }
                assert!(
                    found == after,
                    "round {round}, writer {who}, seed {seed}: {:?}\nwithout an answer: {}",
                    differing(&found, &plain[slot]),
                    open.map_or("nothing".into(), |o| format!("{o:?}").chars().take(200).collect::<String>())
                );
                plain[slot] = after;
            }
        }
    }
    let store = Store::open(&dir.join("store")).unwrap();
    store.sync().unwrap();
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    let mut objects = contents(&store, 0);
    objects.retain(|_, bytes| !bytes.is_empty());
    assert!(plain_files(dir) == objects, "{:?}", differing(&plain_files(dir), &objects));
    println!(
        "{killed} kills, {acknowledged} acknowledged operations, {rebuilds} rebuilds ({ahead} one group of commits ahead): nothing lost"
    );
    println!("{uploads} uploads were left; of the kills at fail points: {died_at:?}");
    assert_eq!(store.list(b".terrace", None, 10).unwrap(), []);
    assert!(!wants_all || died_at.len() == FAIL_POINTS.len(), "a fail point was never reached");
}
