//! Tiers of services, and streams.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use terrace::Ack;
use terrace_stream::{Request, Stream};
use terrace_testkit::{Random, Redis, wait_until};

use crate::number;
use crate::shared::{More, NODE_NAMES, Node, Shared, told};

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

/// Programs on two nodes append to one stream, and two nodes deliver it, each to a part of the destinations. Again and again, the process of
/// one is killed or paused, and comes back. Each request arrives once, and those of a producer in order. A fifth of `TERRACE_NODE_KILLS` is the number of
/// kills.
#[test]
fn a_stream_of_several_nodes_is_delivered_once() {
    let Some(shared) = Shared::start("a stream of several nodes") else { return };
    const REQUESTS_PER_ROUND: u64 = 60;
    const DESTINATION_COUNT: u64 = 24;
    let (mut random, kills) = (Random::new(number("TERRACE_SEED", 1)), number("TERRACE_NODE_KILLS", 5).div_ceil(5));
    let out = shared.path("out");
    let deliver = |at: usize, to: &Path, stdin: Stdio| {
        let mut run = shared.command(at, &["flush", "-", "--json", "--stream", "s", "--to"]);
        run.arg(to).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let append = |round: u64| {
        thread::scope(|scope| {
            for node in &NODE_NAMES[..2] {
                let store = terrace::Store::open(&shared.path(node)).unwrap();
                scope.spawn(move || {
                    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
                    let mut producer = stream.producer(node).unwrap();
                    for number in round * REQUESTS_PER_ROUND..(round + 1) * REQUESTS_PER_ROUND {
                        let (line, to) = (format!("{node} {number}\n"), number % DESTINATION_COUNT);
                        producer.send(Request::append(format!("d/{to}"), line.clone())).unwrap();
                        producer.send(Request::append("both", line)).unwrap();
                    }
                });
            }
        });
    };
    let has_all = |rounds: u64| {
        let lines = |name: String| fs::read_to_string(out.join(name)).unwrap_or_default().lines().count() as u64;
        let all = 2 * rounds * REQUESTS_PER_ROUND;
        lines("both".into()) >= all && (0..DESTINATION_COUNT).map(|to| lines(format!("d/{to}"))).sum::<u64>() >= all
    };
    let holders = || {
        let store = terrace::Store::open(&shared.path("a")).unwrap();
        let shares = store.list(b".terrace/streams/s/shares", None, 100).unwrap();
        let mut nodes: Vec<String> = shares.iter().map(|(_, share)| share.attributes.user["node"].clone()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    // They run as long as their standard input is open.
    let mut both = [1, 2].map(|at| Node(deliver(at, &out, Stdio::piped())));
    append(0);
    wait_until("two nodes deliver", || has_all(1));
    let mut elsewhere = shared.command(0, &["flush", "-", "--stream", "s", "--to"]);
    let elsewhere = elsewhere.arg(shared.path("elsewhere")).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(!elsewhere.status.success() && message.contains("deliver to the same place"), "{message}");
    let refused = shared.run(0, &["flush", "both", "--stream", "s", "--forget"]);
    assert!(!refused.status.success(), "nobody else changes what they have delivered");

    for kill in 0..kills {
        let victim = random.below(2) as usize;
        thread::scope(|scope| {
            scope.spawn(|| append(1 + kill));
            thread::sleep(Duration::from_millis(random.below(500)));
            let is_pause = kill % 2 == 1;
            signal(&both[victim], if is_pause { Signal::STOP } else { Signal::KILL });
            wait_until("one node delivers for both", || has_all(2 + kill));
            match is_pause {
                true => signal(&both[victim], Signal::CONT),
                false => both[victim] = Node(deliver(victim + 1, &out, Stdio::piped())),
            }
        });
    }
    wait_until("each node has a part", || holders() == ["b", "c"]);
    append(1 + kills);
    wait_until("two nodes deliver again", || has_all(2 + kills));
    let ended = both.each_mut().map(end);
    assert!(ended.iter().all(|requests| *requests > 0), "both have delivered: {ended:?}");
    assert!(holders().is_empty());
    let all: Vec<u64> = (0..(2 + kills) * REQUESTS_PER_ROUND).collect();
    let of = |text: &str, node: &str| -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(node)?.strip_prefix(' '));
        lines.map(|number| number.parse().unwrap()).collect()
    };
    let both = fs::read_to_string(out.join("both")).unwrap();
    for node in ["a", "b"] {
        assert_eq!(of(&both, node), all, "in order, each once");
        for to in 0..DESTINATION_COUNT {
            let text = fs::read_to_string(out.join(format!("d/{to}"))).unwrap();
            let expected: Vec<u64> = all.iter().copied().filter(|number| number % DESTINATION_COUNT == to).collect();
            assert_eq!(of(&text, node), expected, "in order, each once");
        }
    }
    told(&shared.run(0, &["flush", "both", "--stream", "s", "--forget"]));
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
