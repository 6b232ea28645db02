//! The store's own flushing keeps pace: with the upper tier at its high watermark and writers at full speed, writes slow down to
//! what the lower tier takes. None fails, which it would after it has waited for 30 seconds; and what is read meanwhile is right.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{noise, store_of, tier};
use terrace::{Ack, PutOptions};

const WRITERS: u64 = 4;
const OBJECTS: u64 = 60;
const LENGTH: usize = 300_000;

#[test]
fn writers_at_full_speed_wait_for_the_lower_tier_and_none_fails() {
    let dir = tempfile::tempdir().unwrap();
    let ram = tier(dir.path(), "ram", &["ram"], "persistent = false\ncapacity = '8MiB'\nhigh_watermark = 0.5");
    let disks = tier(dir.path(), "disk", &["a", "b"], "throttle = { write = '30MB/s', latency = '1ms' }");
    let store = store_of(dir.path(), &[ram, disks]);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let (written, over, read) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let key = |number: u64| format!("w{}/{}", number % WRITERS, number / WRITERS).into_bytes();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, options, written) = (&store, &options, &written);
                scope.spawn(move || {
                    for at in 0..OBJECTS {
                        let number = at * WRITERS + writer;
                        store.put_bytes(&key(number), &noise(LENGTH, number), options).unwrap();
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut next = 7u64;
            while !over.load(Ordering::Relaxed) {
                next = next.wrapping_mul(6364136223846793005).wrapping_add(1);
                let number = (next >> 33) % (OBJECTS * WRITERS);
                match store.get(&key(number)) {
                    Ok(bytes) => {
                        assert!(bytes == noise(LENGTH, number), "object {number}");
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
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    for number in 0..OBJECTS * WRITERS {
        assert!(store.get(&key(number)).unwrap() == noise(LENGTH, number));
    }
    let (written, read) = (written.into_inner(), read.into_inner());
    println!("{written} objects, 9 times what the upper tier holds, and {read} reads meanwhile: none failed");
}
