//! Many threads read and write the same elements through different views at once.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use terrace_datasets::{Datasets, Declared};

const SHARED_DECLARATION: &str = "
dataset { var data [3000]struct { a, b, c int32 } }
view rows { var data = data }
view fields { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view big big blocked(32) { var data = data }
replica rows { view rows }
replica fields { view fields }
replica late complete { view big; consistency async 5ms }
";
const VALUE_COUNT: usize = 9000;

#[test]
fn each_reader_sees_each_write_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    // Two handles, like two processes.
    let datasets = [Datasets::new(&store), Datasets::new(&store)];
    datasets[0].add("d", SHARED_DECLARATION).unwrap();
    let (done, tag, seen) = (AtomicBool::new(false), AtomicU32::new(1), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = [(0, "rows"), (1, "fields"), (1, "rows")]
            .into_iter()
            .map(|(datasets_of, view)| {
                let view = datasets[datasets_of].open("d").unwrap().view(view).unwrap();
                let tag = &tag;
                scope.spawn(move || {
                    for _ in 0..60 {
                        let value = tag.fetch_add(1, Ordering::Relaxed);
                        let bytes: Vec<u8> = (0..VALUE_COUNT).flat_map(|_| value.to_le_bytes()).collect();
                        view.write_at(0, &bytes).unwrap();
                    }
                })
            })
            .collect();
        for (datasets_of, name) in [(0, "fields"), (1, "rows"), (0, "big")] {
            let view = datasets[datasets_of].open("d").unwrap().view(name).unwrap();
            let (done, seen) = (&done, &seen);
            scope.spawn(move || {
                let length = view.length().unwrap() as usize;
                let mut bytes = vec![0; length];
                while !done.load(Ordering::Relaxed) {
                    view.read_at(0, &mut bytes).unwrap();
                    let number = |four: &[u8]| {
                        let four = [four[0], four[1], four[2], four[3]];
                        if name == "big" { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
                    };
                    let mut values: Vec<u32> = bytes.chunks(4).map(number).collect();
                    // Zeros fill up blocks.
                    values.retain(|value| name != "big" || *value != 0);
                    assert!(values.iter().all(|value| *value == values[0]), "{name} is of several writes");
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (done, live) = (&done, datasets[0].open("d").unwrap());
        scope.spawn(move || {
            // Replicas are added and removed meanwhile.
            let more = Declared::parse(&format!("{SHARED_DECLARATION} replica extra {{ view big }}")).unwrap();
            let less = Declared::parse(SHARED_DECLARATION).unwrap();
            while !done.load(Ordering::Relaxed) {
                for declared in [&more, &less] {
                    match live.change(declared) {
                        Ok(()) | Err(terrace_datasets::Error::Refused(_) | terrace_datasets::Error::Busy(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    println!("{} reads", seen.load(Ordering::Relaxed));
    let dataset = datasets[0].open("d").unwrap();
    dataset.settle().unwrap();
    assert!(dataset.replicas().unwrap().iter().all(|(_, _, behind)| !behind));
}

#[test]
fn many_threads_may_resize_arrays_at_once() {
    let declaration = "dataset { var n int32; var d [n]int32 }\n\
        view all { var n = n; var d = d }\nview big big { var d = d; var n = n }\n\
        replica one { view all }\nreplica two { view big }\n";
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let datasets: Vec<Datasets> = (0..4).map(|_| Datasets::new(&store)).collect();
    datasets[0].add("v", declaration).unwrap();
    std::thread::scope(|scope| {
        for (number, of) in (1u8..).zip(&datasets) {
            let view = of.open("v").unwrap().view("all").unwrap();
            scope.spawn(move || {
                for count in [3000u32, 10, 2000, 500].iter().cycle().skip(number.into()).take(60) {
                    let values = [number; 4].repeat(*count as usize);
                    match view.write_at(0, &[&count.to_le_bytes()[..], &values].concat()) {
                        // Another thread has shortened the arrays meanwhile.
                        Ok(()) | Err(terrace_datasets::Error::Beyond { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let dataset = Datasets::new(&store).open("v").unwrap();
    assert!(dataset.replicas().unwrap().iter().all(|(_, _, behind)| !behind));
    let view = dataset.view("all").unwrap();
    let mut all = vec![0; view.length().unwrap() as usize];
    assert_eq!(view.read_at(0, &mut all).unwrap(), all.len());
    assert_eq!(i32::from_le_bytes(all[..4].try_into().unwrap()) as usize * 4 + 4, all.len());
}

#[test]
fn blind_writers_write_in_parallel_with_other_writers() {
    const ROW_COUNT: usize = 4000;
    let dir = tempfile::tempdir().unwrap();
    let store = common::store(dir.path());
    let text = "
        dataset { var data [4000]struct { a, b int32 } }
        view rows { var data = data }
        view fields { var a [] { a } = data; var b [] { b } = data }
        replica rows { view rows }
        replica fields { view fields }
    ";
    let dataset = Datasets::new(&store).add("d", text).unwrap();
    std::thread::scope(|scope| {
        for who in 0..4usize {
            let (rows, fields) = (dataset.view("rows").unwrap(), dataset.view("fields").unwrap());
            scope.spawn(move || {
                let first = who * ROW_COUNT / 4;
                for value in 1..=100i32 {
                    let values = |count: usize| value.to_le_bytes().repeat(count);
                    rows.write_at(first as u64 * 8, &values(ROW_COUNT / 2)).unwrap();
                    // This also reads the bytes between its elements in the other replica, where other threads write.
                    fields.write_at(first as u64 * 4, &values(ROW_COUNT / 4)).unwrap();
                    if value % 10 == 0 {
                        fields.write_at(0, &values(ROW_COUNT)).unwrap();
                    }
                }
            });
        }
    });
    let [rows, fields] = ["rows", "fields"].map(|name| {
        let bytes = store.get(format!("datasets/d/{name}").as_bytes()).unwrap();
        bytes.chunks(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect::<Vec<i32>>()
    });
    let columns = (0..2).flat_map(|field| rows.iter().skip(field).step_by(2).copied());
    assert!(columns.eq(fields.iter().copied()), "the replicas differ");
    assert!(fields.iter().all(|value| *value == 100), "a write is gone");
}
