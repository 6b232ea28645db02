//! Nodes and rules are changed while the store is in use.

use std::fs;

use terrace_testkit::{Random, free_ports, wait_until};

use crate::shared::{NODE_NAMES, Node, Shared, told};

/// A node with a target is added while others use the store, also by processes that have had it open for long.
#[test]
fn a_node_with_a_target_is_added() {
    let Some(mut shared) = Shared::start("a node that is added") else { return };
    let bytes = Random::new(8).bytes(300_000);
    let stores = [0, 1].map(|at| terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap());
    let port = free_ports(1)[0];
    let address = format!("http://127.0.0.1:{port}/disk");
    let add = |tier: &str| shared.run(1, &["node", "add", "d", "--tier", tier, "--target", &address]);
    let unknown = add("tape");
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && message.contains("no tier \"tape\""), "{message}");
    told(&add("disk"));
    let again = add("disk");
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("a target of this store already")
    );
    // It is away until its node is there.
    stores[0].put_bytes(b"before", &bytes, &terrace::PutOptions::default()).unwrap();
    // The status shows what the node has followed so far.
    wait_until("the new node is known", || shared.status_of(0, "d")["there"] == false);
    let text = fs::read_to_string(shared.path("a-targets.toml")).unwrap();
    let ports = |text: &str| text.lines().next().unwrap().to_owned();
    let text = text.replace(&ports(&text), &format!("listen = '127.0.0.1:{port}'"));
    let text = text.replace(shared.path("a-disk").to_str().unwrap(), shared.path("d-disk").to_str().unwrap());
    fs::write(shared.path("d-targets.toml"), text).unwrap();
    let mut command = shared.command(0, &["node", "--no-listen", "--join", &shared.log, "--name", "d", "--targets"]);
    command.arg(shared.path("d-targets.toml")).env("TERRACE_STORE", shared.path("d"));
    let log = fs::File::options().append(true).open(shared.path("nodes.log")).unwrap();
    shared.nodes.push(Some(Node(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())));
    wait_until("the new node serves its target", || {
        let target = &shared.status_of(0, "d")["targets"][0];
        target["incarnation"].as_u64() > Some(0) && target["doubtful"] == false
    });
    let file = shared.path("to-put");
    fs::write(&file, &bytes).unwrap();
    for key in ["on d", "also"] {
        let mut put = shared.command(0, &["put", "--replicas", "1"]);
        told(&put.env("TERRACE_STORE", shared.path("d")).arg(&file).arg(key).output().unwrap());
    }
    let located = told(&shared.run(1, &["locate", "on d", "--json"]));
    assert!(located.contains("\"node\":\"d\""), "{located}");
    for store in &stores {
        assert!(store.get(b"on d").unwrap() == bytes && store.get(b"before").unwrap() == bytes);
    }
    drop(stores);
    told(&shared.run(2, &["node", "remove", "d"]));
    assert!(shared.get(1, "also") == bytes && shared.status_of(0, "d")["targets"] == serde_json::json!([]));
}

/// Rules are changed by any node, and by an editor.
#[test]
fn changed_rules_reach_all_nodes() {
    let Some(shared) = Shared::start("rules of a shared store") else { return };
    let rules = |at: usize| fs::read_to_string(shared.path(NODE_NAMES[at]).join("terrace.toml")).unwrap();
    let edited = format!("{}\n[[rule]]\nprefix = 'three'\nreplicas = 3\n", rules(1));
    fs::write(shared.path("b/terrace.toml"), edited).unwrap();
    wait_until("all nodes have the rule", || (0..3).all(|at| rules(at).contains("\"three\"")));
    let unused = |at: usize| shared.path(NODE_NAMES[at]).join("terrace.toml.unused");
    assert!(!unused(1).exists(), "the rules of node b were taken, and it said that they were not");
    // Of two that change them at once, only the one whose rules are not taken says so.
    for at in [0, 1] {
        let edited = format!("{}\n[[rule]]\nprefix = 'of {at}'\nreplicas = 2\n", rules(2));
        fs::write(shared.path(NODE_NAMES[at]).join("terrace.toml"), edited).unwrap();
    }
    wait_until("all nodes have one of the rules", || {
        rules(0) == rules(1) && rules(1) == rules(2) && rules(2).contains("\"of ")
    });
    for at in [0, 1] {
        assert_eq!(unused(at).exists(), !rules(2).contains(&format!("\"of {at}\"")), "node {}", NODE_NAMES[at]);
    }
    assert!(shared.put(2, "three/a", b"some bytes"));
    let located = told(&shared.run(0, &["locate", "three/a", "--json"]));
    assert_eq!(located.matches("\"node\":").count(), 3, "{located}");
    // More than rules is not taken from a file.
    fs::write(shared.path("c/terrace.toml"), rules(2).replace("\"disk\"", "\"tape\"")).unwrap();
    wait_until("the file is as before", || rules(2) == rules(0));
    assert!(fs::read_to_string(shared.path("c/terrace.toml.unused")).unwrap().contains("tape"));
    // Nor is a file that is no text, which is kept as well.
    fs::write(shared.path("c/terrace.toml"), [0xff; 9]).unwrap();
    wait_until("the file is as before", || fs::read(shared.path("c/terrace.toml")).unwrap() == rules(0).as_bytes());
    assert_eq!(fs::read(shared.path("c/terrace.toml.unused")).unwrap(), [0xff; 9]);
    assert!(shared.put(2, "three/b", b"other bytes") && shared.get(1, "three/b") == b"other bytes");
}

/// A tier that all nodes reach is added while the store is in use. Processes that have had it open for long use it, too.
#[test]
fn a_tier_of_all_nodes_is_added() {
    let Some(shared) = Shared::start("a tier that is added") else { return };
    let bytes = Random::new(9).bytes(300_000);
    let stores = [0, 1, 2].map(|at| terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap());
    stores[0].put_bytes(b"before", &bytes, &terrace::PutOptions::default()).unwrap();
    let (file, pfs) = (shared.path("pfs.toml"), shared.path("pfs"));
    let add = |text: String, more: &[&str]| {
        fs::write(&file, text).unwrap();
        shared.run(1, &[&["tiers", "add", file.to_str().unwrap()], more].concat())
    };
    let tier = |path: &std::path::Path| {
        format!("[[tier]]\nname = 'pfs'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", path.display())
    };
    for (text, more, reason) in [
        (tier(&pfs), ["--before", "disk"].as_slice(), "comes after all others"),
        (tier(&pfs).replace("'pfs'", "'disk'"), &[], "disk"),
        (
            format!("[[tier]]\nname = 'own'\nkind = 'directory'\ntargets = ['{}']\n", pfs.display()),
            &[],
            "cannot reach it",
        ),
    ] {
        let refused = add(text, more);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains(reason), "{message}");
    }
    told(&add(tier(&pfs), &[]));
    told(&add(tier(&pfs), &[]));
    let on_pfs = terrace::PutOptions { tiers: Some(vec!["pfs".into()]), ..Default::default() };
    for (at, store) in stores.iter().enumerate() {
        let key = format!("on pfs/{at}");
        store.put_bytes(key.as_bytes(), &bytes, &on_pfs).unwrap();
    }
    told(&shared.run(0, &["stage", "before", "--tier", "pfs"]));
    for store in &stores {
        assert!((0..3).all(|at| store.get(format!("on pfs/{at}").as_bytes()).unwrap() == bytes));
    }
    let located = told(&shared.run(2, &["locate", "before", "--json"]));
    assert!(located.contains("pfs") && fs::read_dir(&pfs).unwrap().count() > 0, "{located}");
    drop(stores);
    told(&shared.run(0, &["sync"]));
    told(&shared.run(2, &["scrub"]));
}

/// The program is replaced on one node after the other. The log gets the new format once all have the new program; an older one is then refused.
#[test]
fn the_log_is_upgraded_once_all_nodes_know_the_new_format() {
    let Some(mut shared) = Shared::start("an upgrade of a shared log") else { return };
    let new = [("TERRACE_LOG_FORMAT", "2")];
    let upgrade = |shared: &Shared| {
        let upgraded = shared.command(0, &["cluster", "upgrade", "--json"]).envs(new).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&upgraded.stdout).unwrap();
        (upgraded.status.success(), found["format"].as_u64(), found["behind"].to_string())
    };
    for at in 0..2 {
        shared.nodes[at] = None;
        shared.start_node_under(at, &[], &new);
        shared.wait_for_node(at);
    }
    assert_eq!(upgrade(&shared), (false, Some(1), "[\"c\"]".to_owned()));
    assert!(shared.put(2, "k", b"by the old program") && shared.get(0, "k") == b"by the old program");
    shared.nodes[2] = None;
    shared.start_node_under(2, &[], &new);
    shared.wait_for_node(2);
    assert_eq!(upgrade(&shared), (true, Some(2), "[]".to_owned()));
    for (at, name) in NODE_NAMES.iter().enumerate() {
        assert!(shared.put(at, name, b"in the new format"));
    }
    shared.nodes[2] = None;
    let old = shared.run(2, &["node", "--no-listen"]);
    let message = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(!old.status.success() && message.contains("has format 2, and this version knows 1"), "{message}");
    assert_eq!(upgrade(&shared), (true, Some(2), "[]".to_owned()));
    assert!(shared.put(0, "k", b"by a new program") && shared.get(1, "k") == b"by a new program");
}
