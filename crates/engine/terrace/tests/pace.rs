//! The store's own flushing keeps pace: with the upper tier at its high watermark and writers at full speed, writes slow down to
//! the rate of the lower tier. No write fails, so none waits for 30 seconds. Reads are right meanwhile, and hot bytes stay on the
//! upper tier.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use common::{store_of, tier};
use terrace::{Ack, PutOptions};
use terrace_testkit::{Random, noise, wait_until};

const WRITER_COUNT: u64 = 4;
const OBJECT_COUNT: u64 = 60;
const OBJECT_BYTES: usize = 300_000;

#[test]
fn writers_at_full_speed_wait_for_the_lower_tier_and_none_fails() {
    let dir = tempfile::tempdir().unwrap();
    let ram = tier(dir.path(), "ram", &["ram"], "persistent = false\ncapacity = '8MiB'\nhigh_watermark = 0.5");
    let disks = tier(dir.path(), "disk", &["a", "b"], "throttle = { write = '30MB/s', latency = '1ms' }");
    let store = store_of(dir.path(), &[ram, disks]);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let (written, over, read) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let key = |number: u64| format!("w{}/{}", number % WRITER_COUNT, number / WRITER_COUNT).into_bytes();
    // Read before it is crowded, and all the time.
    let hot = noise(OBJECT_BYTES, 1 << 40);
    store.put_bytes(b"hot", &hot, &PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() }).unwrap();
    (0..200).for_each(|_| assert!(store.get(b"hot").unwrap() == hot));
    let up = || store.locate(b"hot").unwrap().extents.iter().all(|e| e.replicas.iter().any(|r| r.tier == "ram"));
    assert!(up());
    let longest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITER_COUNT)
            .map(|writer| {
                let (store, options, written, longest) = (&store, &options, &written, &longest);
                scope.spawn(move || {
                    for at in 0..OBJECT_COUNT {
                        let number = at * WRITER_COUNT + writer;
                        let (bytes, begun) = (noise(OBJECT_BYTES, number), Instant::now());
                        store.put_bytes(&key(number), &bytes, options).unwrap();
                        longest.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut random = Random::new(7);
            while !over.load(Ordering::Relaxed) {
                assert!(store.get(b"hot").unwrap() == hot);
                let number = random.below(OBJECT_COUNT * WRITER_COUNT);
                match store.get(&key(number)) {
                    Ok(bytes) => {
                        assert!(bytes == noise(OBJECT_BYTES, number), "object {number}");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(terrace::Error::NotFound { .. }) => std::thread::yield_now(),
                    Err(e) => panic!("object {number}: {e}"),
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // On a busy machine the reader may have had no turn for so long that something else was hotter.
    wait_until("what is hot is in memory", || store.get(b"hot").unwrap() == hot && up());
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    for number in 0..OBJECT_COUNT * WRITER_COUNT {
        assert!(store.get(&key(number)).unwrap() == noise(OBJECT_BYTES, number));
    }
    let (written, read) = (written.into_inner(), read.into_inner());
    println!("{written} objects, 9 times what the upper tier holds, and {read} reads meanwhile: none failed");
    println!("the longest write took {} ms", longest.into_inner());
}

/// Owed replicas are made from the bytes that were given. Reading them back would take half an hour here.
#[test]
fn owed_replicas_are_not_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let slow = tier(dir.path(), "tape", &["a", "b"], "throttle = { read = '1KB/s', write = '100MB/s' }");
    let store = store_of(dir.path(), &[slow]);
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"k", &noise(2_000_000, 1), &options).unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
}

/// Bytes are not copied into memory that is at its high watermark, and would evict them at once. Reading them would take hours here.
#[test]
fn what_would_be_evicted_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let ram = tier(dir.path(), "ram", &["ram"], "persistent = false\ncapacity = '8MiB'");
    let tape = tier(dir.path(), "tape", &["a"], "throttle = { read = '1KB/s', write = '200MB/s' }");
    let store = store_of(dir.path(), &[ram, tape]);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    for number in 0..80 {
        store.put_bytes(format!("k{number}").as_bytes(), &noise(1_000_000, number), &options).unwrap();
    }
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
}
