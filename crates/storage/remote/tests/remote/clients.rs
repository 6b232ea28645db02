//! Several clients at the same time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::node::{Node, Transport, append, bytes, read};

/// Another process discards segments without live frames while one appends: an acknowledged frame is never discarded.
#[test]
fn what_one_client_has_not_committed_no_other_discards() {
    let node = Node::start(Transport::Plain);
    let made = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let discarding = scope.spawn(|| {
            let target = node.open();
            let mut gone = 0;
            while !is_over.load(Ordering::Relaxed) {
                let segments: Vec<u64> = made.lock().unwrap().clone();
                for segment in segments {
                    gone += usize::from(target.discard(segment).unwrap());
                }
                // On a busy machine, writers would find each new segment discarded before they have written to it.
                thread::sleep(Duration::from_millis(1));
            }
            gone
        });
        let write = |client: u64| {
            let (node, made) = (&node, &made);
            move || {
                // Each round is a process that comes and goes.
                for round in 0..12 {
                    let target = node.open();
                    let mut held = Vec::new();
                    for frame in 0..8 {
                        let write = client * 10_000 + round * 100 + frame;
                        let place = append(&*target, write, 3000).unwrap();
                        held.push((write, place));
                        let mut made = made.lock().unwrap();
                        if !made.contains(&place.segment) {
                            made.push(place.segment);
                        }
                    }
                    for (write, place) in held {
                        assert!(read(&*target, place).unwrap() == bytes(write, 3000), "{place:?}");
                    }
                }
            }
        };
        let writers = [scope.spawn(write(1)), scope.spawn(write(2))];
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let gone = discarding.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
        assert!(gone > 0, "no segment was ever free to be discarded");
    });
}
