//! Tiers of services, and streams.

use std::fs;
use std::process::Stdio;
use std::thread;

use terrace::Ack;
use terrace_stream::{Request, Stream};
use terrace_testkit::{Random, Redis, wait_until};

use crate::shared::{NODE_NAMES, Node, Shared, told};

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
    let Some(mut shared) = Shared::start_with("a tier of a service", &tiers, None) else { return };
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

/// Programs on two nodes append to one stream, and a third node runs it until it dies; then another one does. Each request arrives once.
#[test]
fn a_stream_of_several_nodes_is_delivered_once() {
    let Some(mut shared) = Shared::start("a stream of several nodes") else { return };
    const REQUEST_COUNT: u64 = 150;
    let out = shared.path("out");
    let run_on = |shared: &Shared, at: usize, stdin: Stdio| {
        let mut run = shared.command(at, &["flush", "-", "--stream", "s", "--to"]);
        run.arg(&out).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // It runs as long as its standard input is open.
    let mut first = Node(run_on(&shared, 2, Stdio::piped()));
    let is_running = |shared: &Shared| {
        let streams = shared.run(0, &["flush", "--json"]);
        String::from_utf8_lossy(&streams.stdout).contains("\"running\":true")
    };
    thread::scope(|scope| {
        let appending: Vec<_> = (0..2)
            .map(|at| {
                let store = terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap();
                scope.spawn(move || {
                    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
                    let mut producer = stream.producer(NODE_NAMES[at]).unwrap();
                    for number in 0..REQUEST_COUNT {
                        let line = format!("{number}\n");
                        producer.send(Request::append(format!("of-{}", NODE_NAMES[at]), line.clone())).unwrap();
                        producer.send(Request::append("of-both", line)).unwrap();
                    }
                })
            })
            .collect();
        wait_until("the stream runs", || is_running(&shared));
        let refused = run_on(&shared, 1, Stdio::null()).wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains("run"), "{message}");
        appending.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // What is not delivered yet is delivered by another node, once this one's lease is over.
    first.0.kill().unwrap();
    shared.nodes[2] = None;
    wait_until("another node runs the stream", || run_on(&shared, 1, Stdio::null()).wait().unwrap().success());
    let lines = |name: &str| -> Vec<u64> {
        let text = fs::read_to_string(out.join(name)).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    let all: Vec<u64> = (0..REQUEST_COUNT).collect();
    assert!(lines("of-a") == all && lines("of-b") == all, "in order, each once");
    let mut both = lines("of-both");
    both.sort_unstable();
    let twice: Vec<u64> = all.iter().flat_map(|number| [*number, *number]).collect();
    assert_eq!(both, twice);
}
