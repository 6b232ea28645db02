//! A store with a tier in memory and a tier on another node, whose node is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::wait_until;

use crate::place::{Place, noise};

const TARGETS_FILE: &str =
    "listen = 'ADDRESS'\nsecret = 'secret'\ncertificate = 'tls'\n[[target]]\nname = 'nvme'\npath = 'nvme'\n";
const NODE_SECRET: &str = "correct-horse-battery-staple";

/// A node that only serves targets; killed if a test ends early.
struct TargetNode(Child);

impl TargetNode {
    /// Starts it in this place. Returns its address and its fingerprint, too.
    fn start(place: &Place, address: &str) -> (TargetNode, String, String) {
        place.write("node.toml", TARGETS_FILE.replace("ADDRESS", address));
        place.write("secret", NODE_SECRET);
        fs::set_permissions(place.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = place.command(["node", "--targets", "node.toml", "--without-store"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let node = TargetNode(child);
        let rest = line.trim().split_once("https://").unwrap_or_else(|| panic!("{line:?}")).1;
        let (address, fingerprint) = rest.split_once("/ with the certificate ").unwrap();
        (node, address.to_owned(), fingerprint.to_owned())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        wait_until("the node ends", || self.0.try_wait().unwrap().is_some());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for TargetNode {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A store with this many replicas of everything, in memory and on the node.
fn init(place: &Place, address: &str, fingerprint: &str, replicas: u8) {
    let secret = place.path("secret").display().to_string();
    let (ram, tier) = (place.path("ram").display().to_string(), "[[tier]]\nname = ");
    let config = format!(
        "[store]\nreplicas = {{ default = {replicas} }}\n{tier}'ram'\nkind = 'directory'\ntargets = ['{ram}']\ncapacity = '64MiB'\n\
         persistent = false\n{tier}'peer'\nkind = 'node'\ntargets = ['https://{address}/nvme']\ncapacity = '1GiB'\n\
         timeout = '20s'\noptions = {{ secret = '{secret}', fingerprint = '{fingerprint}' }}\n"
    );
    place.write("terrace.toml", config);
    place.good(["init", "--config", "terrace.toml"]);
}

fn check_all(place: &Place) {
    place.good(["sync"]);
    place.good(["check", "files", "files"]);
    let (scrubbed, code) = place.json(["scrub"]);
    assert_eq!((&scrubbed["bad"], &scrubbed["lost"], code), (&0.into(), &0.into(), 0), "{scrubbed}");
}

#[test]
fn what_was_evicted_to_another_node_is_read_back() {
    let place = Place::empty();
    let (node, address, fingerprint) = TargetNode::start(&place, "127.0.0.1:0");
    init(&place, &address, &fingerprint, 1);
    for n in 0..6 {
        place.write(format!("files/{n}"), noise(100_000 + n * 700_000, n as u64));
    }
    place.good(["put", "files", "files", "--ack", "placed"]);
    place.good(["drain", "ram"]);
    let (status, _) = place.json(["status"]);
    let used = |tier: usize| status["tiers"][tier]["used"].as_u64().unwrap();
    assert!(used(1) > 10 << 20, "{status}");
    let (located, _) = place.json(["locate", "files/1"]);
    assert_eq!(located["extents"][0]["replicas"][0]["node"], "127.0.0.1", "{located}");
    let place_on_node = format!("127.0.0.1: https://{address}/nvme");
    let explained = place.good(["explain", "files/1", "--constraint", "tiers=peer"]);
    assert!(explained.contains(&place_on_node), "{explained}");
    check_all(&place);
    node.kill();
    let (node, ..) = TargetNode::start(&place, &address);
    check_all(&place);
    node.stop();
    let (node, ..) = TargetNode::start(&place, &address);
    check_all(&place);
    node.stop();
    let ran = place.run(["get", "files/1", "out"]);
    assert!(ran.code != 0 && ran.err.contains("the connection failed"), "{}", ran.err);
    let (_node, ..) = TargetNode::start(&place, &address);
    place.good(["get", "files/1", "out"]);
    place.good(["destroy", "--force"]);
    assert!(!place.path("nvme/terrace-target").exists() && !place.path("nvme/segments").exists());
}

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn kills_of_the_node_of_a_target_lose_nothing_that_was_acknowledged() {
    let place = Place::empty();
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(6, |text| text.parse().unwrap());
    let (node, address, fingerprint) = TargetNode::start(&place, "127.0.0.1:0");
    init(&place, &address, &fingerprint, 1);
    let is_over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("files/{n}");
                place.write(&name, noise(1000 + (n as usize * 77_777) % 2_000_000, n));
                let level = ["placed", "replicated", "durable"][n as usize % 3];
                // An error is right while the node is gone. Then nothing was acknowledged.
                let ran = place.run(["put", name.as_str(), name.as_str(), "--ack", level]);
                if ran.code == 0 {
                    written.fetch_add(1, Ordering::Relaxed);
                } else {
                    place.run(["rm", name.as_str()]);
                    fs::remove_file(place.path(&name)).unwrap();
                }
            }
        });
        let mut node = node;
        for kill in 0..kills {
            let before = written.load(Ordering::Relaxed);
            wait_until("the writer goes on", || written.load(Ordering::Relaxed) > before);
            thread::sleep(Duration::from_millis(kill * 97 % 500));
            node.kill();
            (node, ..) = TargetNode::start(&place, &address);
        }
        is_over.store(true, Ordering::Relaxed);
        node
    });
    // The scope has ended with the node; a new one has everything.
    let (_node, ..) = TargetNode::start(&place, &address);
    check_all(&place);
    println!("{kills} kills, {} objects written meanwhile: all there", written.into_inner());
}

/// Without the note of the incarnation, a later `sync` of what was left made the lost frames count as durable.
#[test]
fn what_a_power_loss_of_the_node_took_is_made_again() {
    let place = Place::empty();
    let (node, address, fingerprint) = TargetNode::start(&place, "127.0.0.1:0");
    init(&place, &address, &fingerprint, 2);
    for n in 0..4 {
        place.write(format!("files/{n}"), noise(900_000, n));
    }
    place.good(["put", "files", "files", "--ack", "replicated"]);
    node.kill();
    // The machine comes back with a part of what the node wrote.
    let state = fs::read_to_string(place.path("nvme/node/state")).unwrap();
    let incarnation = state.split(' ').next().unwrap();
    place.write("nvme/node/state", format!("{incarnation} another-boot used\n"));
    for segment in fs::read_dir(place.path("nvme/segments")).unwrap() {
        let file = fs::File::options().write(true).open(segment.unwrap().path()).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }
    let (node, ..) = TargetNode::start(&place, &address);
    place.good(["put", "files/0", "more", "--ack", "durable"]);
    check_all(&place);
    // No replica in memory is left, so the node must have all.
    place.good(["drain", "ram"]);
    place.good(["check", "files", "files"]);
    node.stop();
}

#[test]
fn a_wrong_file_of_targets_is_refused_with_a_reason() {
    let place = Place::empty();
    place.write("secret", NODE_SECRET);
    let refused = |text: &str, reason: &str| {
        place.write("node.toml", text);
        let ran = place.run(["node", "--targets", "node.toml", "--without-store"]);
        assert!(ran.code == 1 && ran.err.contains("node.toml") && ran.err.contains(reason), "{}", ran.err);
    };
    let good = TARGETS_FILE.replace("ADDRESS", "127.0.0.1:0");
    fs::set_permissions(place.path("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    refused(&good, "mode 600");
    fs::set_permissions(place.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    refused(&good.replace("'nvme'\npath", "'../nvme'\npath"), "a-z");
    refused(&good.replace("certificate", "certificates"), "unknown field");
    refused(&good.replace("certificate = 'tls'\n", "").replace("127.0.0.1", "0.0.0.0"), "needs TLS");
    refused(&format!("{good}[[target]]\nname = 'nvme'\npath = 'other'\n"), "two targets");
    let ran = place.run(["node", "--without-store"]);
    assert!(ran.code == 2 && ran.err.contains("--targets"), "{}", ran.err);
}
