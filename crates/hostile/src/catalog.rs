//! The commit log and the catalog's snapshots. Each is replayed or loaded into a new catalog, on which all queries are then
//! run.

use std::fs;
use std::path::Path;

use terrace::catalog::{Catalog, Change, Edit, Expect, Verdict};
use terrace::log::Log;
use terrace::{Config, PutOptions, Store};
use terrace_format::{Proposal, Step};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{bytes_at, shared_memory};

/// The store's id, the seed of all checksums here.
const STORE_ID: u64 = 7;
/// Bytes before a log record's payload.
const RECORD_HEADER: usize = 48;
/// Bytes before a snapshot's first chunk, and before each chunk's records.
const SNAPSHOT_HEADER: usize = 16;

/// Returns whole files of the log, or snapshots, of a store after a few operations of each kind.
fn make_files(suffix: &str) -> Vec<Vec<u8>> {
    let Ok(folder) = tempfile::tempdir() else { return Vec::new() };
    let folder = folder.path();
    // A sample that cannot be made is left out, and the test fails because it is missing.
    if use_a_store(folder).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder.join("store/log")) else { return Vec::new() };
    let wanted = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|found| found == suffix));
    wanted.filter_map(|entry| fs::read(entry.path()).ok()).filter(|bytes| !bytes.is_empty()).collect()
}

fn use_a_store(folder: &Path) -> terrace::Result<()> {
    let tier = |name: &str| {
        let path = folder.join(name);
        format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n", path.display())
    };
    let config = format!("[store]\nreplicas = {{ default = 2 }}\n{}{}", tier("one"), tier("two"));
    let store = Store::init(&folder.join("store"), &Config::parse(&config, "a sample")?)?;
    let options = PutOptions::default();
    for number in 0..12u8 {
        let key = format!("folder {}/object {number}", number % 3);
        store.put_bytes(key.as_bytes(), &vec![number; 1000 << (number % 8)], &options)?;
    }
    store.write_at(b"folder 0/object 0", 500, b"other bytes", &options)?;
    store.rename(b"folder 1/object 1", b"renamed")?;
    store.copy(b"folder 0/object 0", b"a copy")?;
    store.copy(b"a copy", b"another")?;
    store.write_at(b"another", 700, b"its own", &options)?;
    store.remove(b"folder 2/object 2")?;
    store.sync()?;
    store.catalog().write_snapshot(&folder.join("store/log/sample.snapshot"))?;
    Ok(())
}

pub fn log_samples() -> Vec<Vec<u8>> {
    make_files("log")
}

/// Returns proposals of all commits of the logs.
pub fn proposal_samples() -> Vec<Vec<u8>> {
    let samples = log_samples();
    samples
        .iter()
        .map(|log| {
            let mut steps = vec![Step::Begin { session: 1 }];
            replay(log, |number, edits| {
                let change = Change { expect: vec![Expect::Absent(b"no such key".to_vec())], edits: edits.to_vec() };
                steps.push(Step::Change { session: 1, number, change });
            });
            steps.push(Step::End { session: 1 });
            Proposal { incarnation: 1, number: 0, time: 1, steps }.encode(STORE_ID)
        })
        .collect()
}

pub fn parse_proposal(input: &[u8]) -> bool {
    let mut bytes = input.to_vec();
    if let Some(header) = bytes.get_mut(..16) {
        header[..5].copy_from_slice(b"TRSP\x01");
        header[8..].fill(0);
        let checksum = xxh3_64_with_seed(&bytes, STORE_ID).to_le_bytes();
        bytes[8..16].copy_from_slice(&checksum);
    }
    with_catalog(|_, catalog| {
        let verdicts = catalog.follow(1, &[&bytes]);
        verdicts.is_ok_and(|records| records.iter().flatten().any(|verdict| matches!(verdict, Verdict::Done(_))))
    })
}

pub fn snapshot_samples() -> Vec<Vec<u8>> {
    make_files("snapshot")
}

pub fn parse_log(input: &[u8]) -> bool {
    replay(input, |_, _| {})
}

/// Replays a file of the log with corrected headers, and calls `each` with each commit. Returns whether it is valid.
fn replay(input: &[u8], mut each: impl FnMut(u64, &[Edit])) -> bool {
    let mut bytes = input.to_vec();
    let (mut at, mut sequence, mut previous) = (0usize, 1u64, 0u64);
    // Makes each record follow from the one before it.
    while bytes.len() >= at + RECORD_HEADER {
        let payload = u32::from_le_bytes(bytes_at(&bytes, at + 8)) as usize;
        let commits = u32::from_le_bytes(bytes_at(&bytes, at + 12));
        let Some(record) = bytes.get_mut(at..at + RECORD_HEADER + payload) else { break };
        record[..5].copy_from_slice(b"TRLG\x01");
        record[16..24].copy_from_slice(&sequence.to_le_bytes());
        record[24..32].copy_from_slice(&previous.to_le_bytes());
        record[40..48].fill(0);
        previous = xxh3_64_with_seed(record, STORE_ID);
        record[40..48].copy_from_slice(&previous.to_le_bytes());
        sequence += u64::from(commits);
        at += RECORD_HEADER + payload;
    }
    with_catalog(|folder, catalog| {
        // Files are named by the first sequence in them.
        fs::write(folder.join(format!("{:016x}.log", 1)), &bytes).is_ok()
            && catalog
                .replay(&Default::default(), |sequence, edits, _| each(sequence, edits))
                .is_ok_and(|end| end.sequence + 1 == sequence && at == bytes.len())
    })
}

pub fn parse_snapshot(input: &[u8]) -> bool {
    let mut bytes = input.to_vec();
    if bytes.len() < SNAPSHOT_HEADER {
        return false;
    }
    bytes[..5].copy_from_slice(b"TRSN\x01");
    bytes[8..16].copy_from_slice(&STORE_ID.to_le_bytes());
    let (mut at, mut total) = (SNAPSHOT_HEADER, 0);
    while bytes.len() >= at + SNAPSHOT_HEADER {
        let length = u32::from_le_bytes(bytes_at(&bytes, at)) as usize;
        let records = u32::from_le_bytes(bytes_at(&bytes, at + 4));
        let end = at + SNAPSHOT_HEADER + length;
        let Some(chunk) = bytes.get(at + SNAPSHOT_HEADER..end) else { break };
        let checksum = xxh3_64_with_seed(chunk, STORE_ID ^ total).to_le_bytes();
        bytes[at + 8..at + 16].copy_from_slice(&checksum);
        total += u64::from(records);
        at = end;
    }
    with_catalog(|folder, catalog| {
        let path = folder.join("snapshot");
        fs::write(&path, &bytes).is_ok() && catalog.load_snapshot(&path).is_ok_and(|is_whole| is_whole)
    })
}

/// Calls `fill` with a new, empty catalog and the folder of its log, and then runs all queries on the catalog. Returns
/// whether both succeed.
fn with_catalog(fill: impl FnOnce(&Path, &Catalog) -> bool) -> bool {
    let Ok(folder) = tempfile::tempdir_in(shared_memory()) else { return false };
    let log_folder = folder.path().join("log");
    let Ok(log) = Log::open(&log_folder, STORE_ID) else { return false };
    let Ok(catalog) = Catalog::open(&folder.path().join("catalog"), log) else { return false };
    let is_filled = fill(&log_folder, &catalog);
    ask(&catalog).is_ok() && is_filled
}

/// Runs all queries of a catalog. Returns the first error, after all of them have run.
fn ask(catalog: &Catalog) -> terrace::catalog::Result<()> {
    let mut answers = vec![
        catalog.children(b"", b"", 10).map(drop),
        catalog.staged().map(drop),
        catalog.miscounted_frames().map(drop),
        catalog.each_shared_frame(|_, _| {}),
        catalog.owed_count(None).map(drop),
        catalog.tail().map(drop),
    ];
    for (key, object) in catalog.list(b"", None, 100)? {
        answers.push(catalog.locate(&key, 0, u64::MAX).map(drop));
        answers.push(catalog.sources_of(object.id).map(drop));
        answers.push(catalog.locate(&key, object.length / 2, object.length).map(drop));
        answers.push(catalog.children(&key, b"", 10).map(drop));
    }
    for (task, _) in catalog.owed(None, 100)? {
        answers.push(catalog.owed_to(&task).map(drop));
        answers.push(catalog.frame(&task, b"renamed").map(drop));
    }
    for target in 0..3 {
        answers.push(catalog.segments(target).map(drop));
        answers.push(catalog.dead(target, u64::MAX, u64::MAX, 100).map(drop));
        answers.push(catalog.last_freed(target).map(drop));
    }
    answers.into_iter().collect()
}
