//! Tiers of services, and streams.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use terrace::Ack;
use terrace_stream::{Request, Stream};
use terrace_testkit::{EtcdCluster, Missing, Random, Redis, skip, wait_until};

use crate::number;
use crate::shared::{More, Node, Shared, told};

/// A bucket, or a folder of a parallel file system, is one tier for all nodes: each writes blobs of its own, and all read and remove them.
#[test]
fn all_nodes_use_the_tier_of_a_service() {
    let Some(redis) = Redis::start() else { return };
    let pfs = tempfile::tempdir().unwrap();
    let tiers = format!(
        "[[tier]]\nname = 'pfs'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}/of-all']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'redis'\noptions = {{ endpoint = '{}' }}\n",
        pfs.path().display(),
        redis.endpoint()
    );
    let Some(mut shared) = Shared::start_with("a tier of a service", &More { tiers: &tiers, ..More::default() }) else {
        return;
    };
    let contents: Vec<Vec<u8>> = (0..6).map(|n| Random::new(n).bytes(300_000 + n as usize)).collect();
    for (n, bytes) in contents.iter().enumerate() {
        let (at, key) = (n % 3, format!("k{n}"));
        assert!(shared.put(at, &key, bytes));
        told(&shared.run(at, &["stage", &key, "--tier", ["bucket", "pfs"][n / 3]]));
        told(&shared.run((n + 1) % 3, &["evict", &key, "--tier", "disk"]));
    }
    told(&shared.run(0, &["sync"]));
    told(&shared.run(1, &["scrub"]));
    for (key, tier) in [("k0", "bucket"), ("k3", "pfs")] {
        let located = told(&shared.run(2, &["locate", key, "--json"]));
        assert!(located.contains(tier) && !located.contains("\"disk\""), "{located}");
    }
    // No bytes are on these.
    shared.nodes[0] = None;
    shared.nodes[1] = None;
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.get(2, &format!("k{n}")) == *bytes);
    }
}

/// Two programs append to one stream all the time, and two nodes deliver it, each to a part of the destinations. Meanwhile etcd
/// does not answer, or one of the two is paused, or its process or its node is killed, for longer than the other waits before it takes over. Each request arrives once, and those of
/// a program in order. A tenth of `TERRACE_NODE_KILLS`, by default 20, is the number of these events.
#[test]
fn a_stream_of_several_nodes_is_delivered_once() {
    let Some(mut shared) = Shared::start("a stream of several nodes") else { return };
    const DESTINATION_COUNT: u64 = 24;
    const PRODUCER_NAMES: [&str; 2] = ["p", "q"];
    let (mut random, events) = (Random::new(number("TERRACE_SEED", 1)), number("TERRACE_NODE_KILLS", 20).div_ceil(10));
    let (out, first_node) = (shared.path("out"), shared.path("a"));
    let holders = || {
        let store = terrace::Store::open(&first_node).unwrap();
        let shares = store.list(b".terrace/streams/s/shares", None, 100).unwrap();
        let mut nodes: Vec<String> = shares.iter().map(|(_, share)| share.attributes.user["node"].clone()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    let is_stopping = AtomicBool::new(false);
    // Returns the number of rounds that it has sent.
    let produce = |name: &str| {
        let store = terrace::Store::open(&first_node).unwrap();
        let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
        let mut producer = stream.producer(name).unwrap();
        for number in 0.. {
            if is_stopping.load(Ordering::Acquire) {
                return number;
            }
            // Lines of different lengths.
            let line = format!("{name} {number} {}\n", "x".repeat((number % 7) as usize));
            producer.send(Request::append(format!("d/{}", number % DESTINATION_COUNT), line.clone())).unwrap();
            producer.send(Request::append("both", line)).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
        0
    };
    // They run as long as their standard input is open.
    let mut both = [1, 2].map(|at| deliver(&shared, at, &out));
    let sent = thread::scope(|scope| {
        let producing = PRODUCER_NAMES.map(|name| scope.spawn(move || produce(name)));
        wait_until("each node has a part", || holders() == ["b", "c"]);
        let mut elsewhere = shared.command(0, &["flush", "-", "--stream", "s", "--to"]);
        let elsewhere = elsewhere.arg(shared.path("elsewhere")).stdin(Stdio::null()).output().unwrap();
        let message = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
        assert!(!elsewhere.status.success() && message.contains("deliver to the same place"), "{message}");
        let refused = shared.run(0, &["flush", "both", "--stream", "s", "--forget"]);
        assert!(!refused.status.success(), "nobody else changes what they have delivered");
        for event in 0..events {
            let (victim, pause) = (random.below(2) as usize, Duration::from_millis(15_000 + random.below(6_000)));
            match event % 4 {
                // For longer than the time after which others take over: all heartbeats are late, and each process could take the others for silent.
                0 => {
                    let members = 0..EtcdCluster::MEMBER_COUNT;
                    members.clone().for_each(|at| shared.etcd.signal(at, Signal::STOP));
                    thread::sleep(Duration::from_millis(12_000 + random.below(8_000)));
                    members.for_each(|at| shared.etcd.signal(at, Signal::CONT));
                }
                1 => {
                    signal(&both[victim], Signal::STOP);
                    thread::sleep(pause);
                    signal(&both[victim], Signal::CONT);
                }
                2 => {
                    shared.nodes[victim + 1] = None;
                    thread::sleep(pause);
                    shared.start_node(victim + 1, &[]);
                    shared.wait_for_node(victim + 1);
                }
                _ => both[victim] = deliver(&shared, victim + 1, &out),
            }
            thread::sleep(Duration::from_secs(3));
            // One whose node was away for too long ends.
            for (at, delivery) in both.iter_mut().enumerate() {
                if delivery.0.try_wait().unwrap().is_some() {
                    *delivery = deliver(&shared, at + 1, &out);
                }
            }
        }
        wait_until("each node has a part again", || holders() == ["b", "c"]);
        thread::sleep(Duration::from_secs(2));
        is_stopping.store(true, Ordering::Release);
        producing.map(|producer| producer.join().unwrap())
    });
    let ended = both.each_mut().map(end);
    assert!(ended.iter().all(|requests| *requests > 0), "both have delivered: {ended:?}");
    assert!(holders().is_empty());
    let of = |text: &str, producer: &str| -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(producer)?.strip_prefix(' '));
        lines.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    for (producer, count) in PRODUCER_NAMES.into_iter().zip(sent) {
        let all: Vec<u64> = (0..count).collect();
        assert_eq!(of(&read("both"), producer), all, "in order, each once");
        for to in 0..DESTINATION_COUNT {
            let expected: Vec<u64> = all.iter().copied().filter(|number| number % DESTINATION_COUNT == to).collect();
            assert_eq!(of(&read(&format!("d/{to}")), producer), expected, "in order, each once");
        }
    }
    let lines: usize = (0..DESTINATION_COUNT).map(|to| read(&format!("d/{to}")).lines().count()).sum();
    assert_eq!(lines as u64, sent.iter().sum::<u64>(), "no line is torn");
    told(&shared.run(0, &["flush", "both", "--stream", "s", "--forget"]));
}

/// A stream of a directory is run by one node alone. Afterwards others run its log, and deliver to another place: nothing is left behind.
#[test]
fn a_stream_is_run_by_one_node_and_then_by_others() {
    let Some(shared) = Shared::start("a stream of one node and then of others") else { return };
    let burst = shared.path("burst");
    fs::create_dir(&burst).unwrap();
    fs::write(burst.join("file"), "from a directory").unwrap();
    let flush = |at: usize, from: &Path, to: &str| {
        let mut command = shared.command(at, &["flush", "--stream", "t", "--once", "--to"]);
        told(&command.arg(shared.path(to)).arg(from).output().unwrap());
    };
    flush(0, &burst, "first");
    assert_eq!(fs::read_to_string(shared.path("first/file")).unwrap(), "from a directory");
    let store = terrace::Store::open(&shared.path("a")).unwrap();
    let left = store.list(b".terrace/streams/t/workers", None, 10).unwrap();
    assert!(left.is_empty(), "{left:?}");
    let stream = Stream::open(&store, "t", Ack::Placed).unwrap();
    stream.append(vec![Request::append("log", "from the log")]).unwrap();
    flush(1, Path::new("-"), "second");
    assert_eq!(fs::read_to_string(shared.path("second/log")).unwrap(), "from the log");
}

/// The claims of a killed process stay until another one takes over. As long as its node was there, the stream passed for running.
#[test]
fn a_stream_whose_process_was_killed_is_at_rest() {
    let Some(shared) = Shared::start("a stream whose process was killed") else { return };
    let state = || {
        let status: serde_json::Value = serde_json::from_str(&told(&shared.run(0, &["flush", "--json"]))).unwrap();
        status[0]["running"].clone()
    };
    let delivery = deliver(&shared, 1, &shared.path("out"));
    wait_until("node b has claimed all", || state() == true);
    drop(delivery);
    let store = terrace::Store::open(&shared.path("a")).unwrap();
    assert!(!store.list(b".terrace/streams/s/shares", None, 100).unwrap().is_empty(), "nobody has released them");
    wait_until("the stream is at rest", || state() == false);
    // One that takes over releases them in the end.
    let mut next = deliver(&shared, 2, &shared.path("out"));
    wait_until("node c has claimed all", || {
        let shares = store.list(b".terrace/streams/s/shares", None, 100).unwrap();
        !shares.is_empty() && shares.iter().all(|(_, share)| share.attributes.user["node"] == "c")
    });
    assert_eq!(state(), true);
    end(&mut next);
    assert_eq!(state(), false);
}

fn deliver(shared: &Shared, at: usize, to: &Path) -> Node {
    let mut run = shared.command(at, &["flush", "-", "--json", "--stream", "s", "--to"]);
    run.env("TERRACE_ATTEND_DELAY_MILLISECONDS", "500");
    Node(run.arg(to).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
}

fn signal(delivery: &Node, signal: Signal) {
    kill_process(Pid::from_child(&delivery.0), signal).unwrap();
}

/// Ends a delivery by the end of its standard input. Returns the number of requests that it has delivered.
fn end(Node(delivery): &mut Node) -> u64 {
    drop(delivery.stdin.take());
    let ended = std::io::read_to_string(delivery.stdout.take().unwrap()).unwrap();
    assert!(delivery.wait().unwrap().success());
    let ended: serde_json::Value = serde_json::from_str(&ended).unwrap();
    ended["requests"].as_u64().unwrap()
}

const SAMPLES_DECLARATION: &str = "dataset { var data [9000]struct { a, b, c float32 } }\nview aos { var data = data }\n\
    view soa { var a [] { a } = data\nvar b [] { b } = data\nvar c [] { c } = data }\n\
    replica rows { view aos }\nreplica columns { view soa }\n";

/// Three nodes write interleaved parts of a dataset, each through its own process, and all read it in both layouts.
#[test]
fn a_dataset_is_written_by_all_nodes() {
    let Some(shared) = Shared::start("a dataset of several nodes") else { return };
    const PART_COUNT: usize = 9;
    let rows: Vec<u8> = (0..27_000u32).flat_map(|number| (number as f32).to_le_bytes()).collect();
    let column = |field: usize| rows.chunks(12).flat_map(move |row| row[4 * field..4 * field + 4].to_vec());
    let columns: Vec<u8> = (0..3).flat_map(column).collect();
    fs::write(shared.path("samples.dataset"), SAMPLES_DECLARATION).unwrap();
    told(&shared.run(0, &["dataset", "add", shared.path("samples.dataset").to_str().unwrap()]));
    thread::scope(|scope| {
        for at in 0..3 {
            let (shared, rows) = (&shared, &rows);
            scope.spawn(move || {
                // No part begins at the beginning of an extent or of a row.
                let bounds =
                    |part: usize| if part == PART_COUNT { rows.len() } else { part * rows.len() / PART_COUNT / 5 * 5 };
                for part in (0..PART_COUNT).filter(|part| part % 3 == at) {
                    let (file, begin) = (shared.path(&format!("part-{part}")), bounds(part));
                    fs::write(&file, &rows[begin..bounds(part + 1)]).unwrap();
                    let (file, begin) = (file.to_str().unwrap().to_owned(), begin.to_string());
                    told(&shared.run(at, &["view", "write", "samples", "aos", &file, "--at", &begin]));
                }
            });
        }
    });
    for at in 0..3 {
        for (view, expected) in [("aos", &rows), ("soa", &columns)] {
            let read = shared.run(at, &["view", "read", "samples", view]);
            assert!(read.status.success() && read.stdout == *expected, "{view} on node {at}");
        }
    }
    // Each replica is as the other.
    told(&shared.run(2, &["scrub"]));
    for (replica, expected) in [("rows", &rows), ("columns", &columns)] {
        assert!(shared.get(1, &format!("datasets/samples/{replica}")) == *expected, "{replica}");
    }
}

/// The kernel keeps locks for the processes of one machine only, so a program must not believe that it has one.
#[test]
fn programs_get_no_locks_where_nodes_share_a_store() {
    let test = "programs_get_no_locks_where_nodes_share_a_store";
    if !Path::new(env!("CARGO_BIN_EXE_terrace")).with_file_name("libterrace_preload.so").exists() {
        return skip(test, &Missing::new("terrace", "the libraries are not built: `cargo build --lib`"));
    }
    let Some(shared) = Shared::start(test) else { return };
    let script = "
import errno, fcntl, struct
file = open('/terrace/f', 'w+')
whole = struct.pack('hhqqi0q', fcntl.F_WRLCK, 0, 0, 0, 0)
for lock in (lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.lockf(file, fcntl.LOCK_EX),
             lambda: fcntl.fcntl(file, 37, whole), lambda: fcntl.fcntl(file, fcntl.F_GETLK, whole)):
    try:
        lock()
        raise SystemExit('a lock was given')
    except OSError as error:
        assert error.errno == errno.ENOLCK, error
file.write('words'); file.close()
with open('outside', 'w') as outside:
    fcntl.flock(outside, fcntl.LOCK_EX); fcntl.lockf(outside, fcntl.LOCK_EX)
";
    let mut run = shared.command(1, &["run", "--by", "preload", "--", "python3", "-c", script]);
    told(&run.current_dir(shared.folder.path()).output().unwrap());
    assert_eq!(shared.get(2, "f"), b"words");
}
