//! The limits of a plan: a budget of bytes, allowed tiers, the highest latency, the cost model.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use terrace::explain::Verdict;
use terrace::report::ReplicaState;
use terrace::{Ack, Budget, Config, Files, PutOptions, Question, Store};
use terrace_testkit::Random;

fn new_store(dir: &Path, store: &str, rules: &str) -> Store {
    let d = dir.display();
    let targets = |name: &str, count: usize| {
        let targets: Vec<String> = (0..count).map(|number| format!("'{d}/{name}{number}'")).collect();
        targets.join(", ")
    };
    let text = format!(
        "[store]\n{store}\n{rules}\n\
         [[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = [{}]\nthrottle = {{ read = '800MB/s', write = '400MB/s' }}\n\
         [[tier]]\nname = 'burst'\nkind = 'directory'\ntargets = [{}]\nthrottle = {{ read = '100MB/s', write = '100MB/s' }}\n\
         [[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = [{}]\n\
         throttle = {{ read = '50MB/s', write = '50MB/s', latency = '8ms' }}\n",
        targets("nvme", 2),
        targets("burst", 4),
        targets("pfs", 3)
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Numbers of two digits in text: two thirds of the bytes say nothing.
fn bytes() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..200_000).flat_map(|_| format!("{:06}\n", random.below(50)).into_bytes()).collect()
}

/// Of each extent, tier and encoding of each replica, and the bytes of all.
fn replicas(store: &Store, key: &str) -> (Vec<Vec<(String, String)>>, u64) {
    let extents = store.locate(key.as_bytes()).unwrap().extents;
    let all = extents.iter().flat_map(|extent| &extent.replicas);
    assert!(all.clone().all(|replica| replica.state == ReplicaState::Present));
    let stored = all.map(|replica| replica.stored).sum();
    let of = |replica: &terrace::report::ReplicaLocation| (replica.tier.clone(), replica.encoding.clone());
    (extents.iter().map(|extent| extent.replicas.iter().map(of).collect()).collect(), stored)
}

fn replicated() -> PutOptions {
    PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() }
}

#[test]
fn a_budget_holds_as_many_replicas_as_it_pays_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "replicas = { min = 1, max = 9, default = 3 }", "");
    let bytes = bytes();
    let options = PutOptions { budget: Some("3x".parse().unwrap()), ..replicated() };
    // Of this stream, the bytes themselves are all that is known.
    let receipt = store.put_bytes(b"d/first.txt", &bytes, &options).unwrap();
    let (extents, stored) = replicas(&store, "d/first.txt");
    assert!(extents.iter().all(|replicas| replicas.len() > 3), "{extents:?}");
    assert!(receipt.want > 3 && stored <= 3 * bytes.len() as u64, "{stored} of {} bytes", bytes.len());
    let plain = store.put_bytes(b"d/plain.txt", &bytes, &replicated()).unwrap();
    assert_eq!(plain.want, 3);
    // Scrubbing does not spend more.
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    store.sync().unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
    assert!(replicas(&store, "d/first.txt").1 <= 3 * bytes.len() as u64);
    assert!(store.get(b"d/first.txt").unwrap() == bytes);
}

#[test]
fn no_budget_is_so_small_that_all_replicas_are_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 5, default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n\
         throttle = {{ read = '100MB/s', write = '80MB/s', latency = '5ms' }}\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let bytes = bytes();
    for budget in ["0.01x", "0.3x", "0.5x", "1x", "1.5x"] {
        let options = PutOptions { budget: Some(budget.parse().unwrap()), ..replicated() };
        let receipt = store.put_bytes(budget.as_bytes(), &bytes, &options).unwrap();
        store.sync().unwrap();
        let (extents, stored) = replicas(&store, budget);
        let lasts = |all: &Vec<(String, String)>| all.iter().any(|(tier, _)| tier == "disk");
        assert!(extents.iter().all(lasts), "{budget}: {extents:?}");
        let Budget(times) = budget.parse().unwrap();
        let within = stored as f64 <= times * bytes.len() as f64;
        assert!(within || extents.iter().all(|all| all.len() == 1), "{budget}: {stored} bytes, {extents:?}");
        assert!(receipt.want == receipt.possible || !within || receipt.want < 3, "{budget}: {receipt:?}");
    }
}

#[test]
fn an_encoding_that_a_rule_names_counts_where_space_is_planned() {
    // What is quickest to write is raw, and a budget of 1.5 pays for one such replica only.
    let rules =
        "[[rule]]\nprefix = 'named'\nencoding = 'zstd-1'\nbudget = '1.5x'\nrequirements = ['min_write_latency']";
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "replicas = { min = 1, max = 9, default = 3 }", rules);
    let bytes = bytes();
    // What the encoding does is known once it was used.
    for key in ["named/first.txt", "named/first.txt"] {
        store.put_bytes(key.as_bytes(), &bytes, &replicated()).unwrap();
    }
    let (extents, stored) = replicas(&store, "named/first.txt");
    assert!(extents.iter().all(|all| all.len() > 2 && all.iter().all(|(_, encoding)| encoding == "zstd-1")));
    assert!(stored as f64 <= 1.5 * bytes.len() as f64, "{stored} of {} bytes", bytes.len());

    let question = Question { key: b"named/x", block: &bytes, options: &PutOptions::default(), what_if: &[] };
    let explained = store.explain(&question).unwrap().explanation;
    assert!(explained.stored as f64 <= 1.5 * bytes.len() as f64 && explained.replicas.len() > 2, "{explained}");
    let raw = explained.replicas[0].weighed.iter().filter(|weighed| weighed.encoding == terrace::Encoding::NONE);
    assert!(raw.into_iter().all(|raw| matches!(raw.verdict, Verdict::Forbidden(_))), "{explained}");
}

#[test]
fn tiers_and_latency_of_a_rule_hold() {
    let rules = "[[rule]]\nprefix = 'slow'\ntiers = ['pfs']\n\
         [[rule]]\nprefix = 'near'\ntiers = ['burst', 'pfs']\nmax_latency = '2ms'\nreplicas = 5\n\
         [[rule]]\nprefix = 'dense'\nweights = 'archival'\nreplicas = 2\n";
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "replicas = { max = 9 }", rules);
    let bytes = bytes();
    for key in ["slow/a", "near/a", "dense/a"] {
        store.put_bytes(key.as_bytes(), &bytes, &replicated()).unwrap();
        assert!(store.get(key.as_bytes()).unwrap() == bytes);
    }
    let tiers = |key| -> Vec<Vec<String>> {
        let sorted = |all: Vec<(String, String)>| {
            let mut tiers: Vec<String> = all.into_iter().map(|(tier, _)| tier).collect();
            tiers.sort();
            tiers
        };
        replicas(&store, key).0.into_iter().map(sorted).collect()
    };
    assert!(tiers("slow/a").iter().all(|tiers| *tiers == ["pfs"; 3]));
    assert!(tiers("near/a").iter().all(|tiers| *tiers == ["burst", "burst", "burst", "burst", "pfs"]));
    let (extents, stored) = replicas(&store, "dense/a");
    assert!(extents.iter().all(|all| all.len() == 2));
    assert!(stored * 2 < bytes.len() as u64 * 2, "{stored} of 2 x {} bytes: {extents:?}", bytes.len());
}

/// A write that named no tier of the store by mistake went to any tier, and `append` took zero replicas for one. The command line
/// looked at names itself, so no test asked the engine.
#[test]
fn a_write_to_a_tier_that_does_not_exist_is_refused_with_the_tiers_that_do() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "replicas = { default = 1 }", "");
    let on = |names: &[&str]| PutOptions {
        tiers: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..PutOptions::default()
    };
    let application = PutOptions::default().over(&on(&["tape"]));
    for wrong in [on(&["tape"]), on(&["pfs", "tape"]), application] {
        let refused = [
            store.put_bytes(b"a", b"bytes", &wrong).map(drop),
            store.write_at(b"a", 0, b"bytes", &wrong).map(drop),
            store.append(b"a", b"bytes", &wrong).map(drop),
        ];
        for result in refused {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("no tier \"tape\"; there are nvme, burst, pfs"), "{error}");
        }
        assert!(Files::with(&store, wrong).is_err());
    }
    assert!(store.put_bytes(b"a", b"bytes", &on(&[])).unwrap_err().to_string().contains("tiers = []"));
    let none = PutOptions { replicas: Some(0), ..PutOptions::default() };
    assert!(store.append(b"a", b"bytes", &none).unwrap_err().to_string().contains("replicas = 0"));
    assert!(store.stat(b"a").is_err(), "nothing was written");
    // An object stays usable when a tier that it was written to is removed.
    store.put_bytes(b"a", b"bytes", &on(&["burst", "pfs"])).unwrap();
    store.drain("burst").unwrap();
    let at = store.dir().to_owned();
    store.close().unwrap();
    Store::remove_tier(&at, "burst").unwrap();
    let store = Store::open(&at).unwrap();
    store.write_at(b"a", 5, b" and more", &PutOptions::default()).unwrap();
    store.append(b"a", b", too", &PutOptions::default()).unwrap();
    assert_eq!(store.get(b"a").unwrap(), b"bytes and more, too");
}

#[test]
fn the_papers_model_of_costs_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "cost_model = 'paper'", "");
    let bytes = bytes();
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    assert!(store.get(b"a").unwrap() == bytes);
    let (extents, _) = replicas(&store, "a");
    assert!(extents.iter().all(|all| all[0].0 == "nvme" && all.len() == 3), "{extents:?}");
}
