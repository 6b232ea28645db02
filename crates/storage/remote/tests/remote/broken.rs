//! Connections that break, and nodes that are not the right ones.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_remote::NodeKind;
use terrace_tier::{Target, TargetKind};

use crate::node::{Node, Transport, append, assert_sets_aside, bytes, read, scan, write_secret};
use crate::proxy::{self, Plan};

const FRAME_BYTES: usize = 1 << 20;

/// A target behind a proxy, one that needs no proxy, and the plan.
fn behind_proxy(node: &Node) -> (Arc<dyn Target>, Arc<dyn Target>, Arc<Plan>) {
    let direct = node.open();
    direct.forget_new().unwrap();
    let (address, plan) = proxy::start(node.address);
    let mut settings = node.settings_at(address);
    settings.timeout = Some(Duration::from_millis(1500));
    (node.opened(&settings).target, direct, plan)
}

#[test]
fn a_cut_body_is_a_broken_connection_and_no_damage() {
    for transport in [Transport::Plain, Transport::Tls] {
        let node = Node::start(transport);
        let (target, direct, plan) = behind_proxy(&node);
        let place = append(&*direct, 1, FRAME_BYTES).unwrap();
        for length in [1, 100, 5000, 300_000, FRAME_BYTES as u64] {
            plan.cut_answers.store(length, Ordering::Relaxed);
            assert_sets_aside(&read(&*target, place).unwrap_err());
        }
        plan.cut_answers.store(0, Ordering::Relaxed);
        assert!(read(&*target, place).unwrap() == bytes(1, FRAME_BYTES));
    }
}

#[test]
fn a_cut_append_leaves_no_frame_and_a_lost_answer_only_garbage() {
    for transport in [Transport::Plain, Transport::Tls] {
        let node = Node::start(transport);
        let (target, direct, plan) = behind_proxy(&node);
        plan.cut_requests.store(400_000, Ordering::Relaxed);
        assert_sets_aside(&append(&*target, 1, FRAME_BYTES).unwrap_err());
        assert_eq!(scan(&*direct), []);
        plan.cut_requests.store(0, Ordering::Relaxed);
        let first = append(&*target, 2, FRAME_BYTES).unwrap();
        // The node answers, but nobody hears it.
        plan.is_silent.store(true, Ordering::Relaxed);
        assert_eq!(append(&*target, 3, FRAME_BYTES).unwrap_err().kind(), io::ErrorKind::TimedOut);
        plan.is_silent.store(false, Ordering::Relaxed);
        let again = append(&*target, 3, FRAME_BYTES).unwrap();
        let found = scan(&*direct);
        assert!(found.contains(&(2, first)) && found.contains(&(3, again)), "{found:?}");
        assert_eq!(found.len(), 3, "the repeated frame lies at two places, one of them garbage: {found:?}");
        assert!(read(&*target, again).unwrap() == bytes(3, FRAME_BYTES));
    }
}

/// Without TLS, a bit may change on the way. The node says that the frame is whole.
#[test]
fn only_the_node_calls_a_frame_damaged() {
    let node = Node::start(Transport::Plain);
    let (target, direct, plan) = behind_proxy(&node);
    let place = append(&*direct, 1, FRAME_BYTES).unwrap();
    plan.flip.store(700_000, Ordering::Relaxed);
    assert!(read(&*target, place).unwrap() != bytes(1, FRAME_BYTES));
    plan.flip.store(0, Ordering::Relaxed);
    assert!(target.is_whole(place).unwrap());
    let segment = node.segments().pop().unwrap();
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", place.offset + 500_000).unwrap();
    assert!(!target.is_whole(place).unwrap());
    file.set_len(place.offset + 1000).unwrap();
    assert!(!target.is_whole(place).unwrap());
    std::fs::remove_file(&segment).unwrap();
    assert!(!target.is_whole(place).unwrap());
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    for transport in [Transport::Plain, Transport::Tls] {
        let node = Node::start(transport);
        let place = append(&*node.open(), 1, 100).unwrap();
        let mut settings = node.settings();
        let other = node.folder.path().join("other");
        settings.options.insert("secret".into(), other.display().to_string());
        write_secret(&other, "another-secret-of-the-same-kind");
        let opened = node.opened(&settings);
        let trouble = opened.trouble.unwrap();
        assert_eq!(trouble.kind(), io::ErrorKind::NotConnected);
        assert!(trouble.to_string().contains("secret"), "{trouble}");
        assert_sets_aside(&read(&*opened.target, place).unwrap_err());
        assert_sets_aside(&append(&*opened.target, 2, 100).unwrap_err());
        let wrong = |reason: &str| {
            let error = NodeKind.open(&settings, &node.owner()).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        };
        write_secret(&other, "short");
        wrong("16 to 1024");
        write_secret(&other, "a secret with spaces in it");
        wrong("16 to 1024");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&other, mode).unwrap();
        wrong("mode 600");
        std::fs::remove_file(&other).unwrap();
        wrong("cannot be read");
    }
}

#[test]
fn a_wrong_certificate_gets_neither_secret_nor_frames() {
    let node = Node::start(Transport::Tls);
    let other = Node::start(Transport::Tls);
    let mut settings = node.settings();
    settings.options.insert("fingerprint".into(), other.settings().options["fingerprint"].clone());
    let opened = node.opened(&settings);
    assert_sets_aside(&opened.trouble.unwrap());
    assert_sets_aside(&append(&*opened.target, 1, 100).unwrap_err());
    assert!(!node.disk().join("segments").exists(), "no request came through");
    // A node without TLS in the place of one with it.
    let plain = Node::start(Transport::Plain);
    let opened = node.opened(&node.settings_at(plain.address));
    assert_sets_aside(&opened.trouble.unwrap());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let node = Node::start(Transport::Plain);
    let fingerprint = format!("sha256:{}", "0".repeat(64));
    let with = |path: &str, fingerprint: Option<&str>| {
        let mut settings = node.settings();
        settings.path = path.into();
        settings.options.extend(fingerprint.map(|text| ("fingerprint".to_owned(), text.to_owned())));
        NodeKind.check(&settings)
    };
    assert_eq!(with("https://peer:5642/nvme", Some(&fingerprint)), Ok(()));
    for (path, fingerprint, reason) in [
        ("peer:5642/nvme", None, "https://HOST:PORT/TARGET"),
        ("ftp://peer:5642/nvme", None, "https://HOST:PORT/TARGET"),
        ("https://peer/nvme", Some(&*fingerprint), "https://HOST:PORT/TARGET"),
        ("https://peer:5642/../nvme", Some(&*fingerprint), "https://HOST:PORT/TARGET"),
        ("https://peer:5642/nvme", None, "fingerprint is missing"),
        ("https://peer:5642/nvme", Some("sha256:00"), "no fingerprint"),
        ("http://127.0.0.1:5642/nvme", Some(&*fingerprint), "for https"),
    ] {
        let refused = with(path, fingerprint).unwrap_err();
        assert!(refused.contains(reason), "{path}: {refused}");
    }
    // Plain HTTP reaches only this machine, whatever a name stands for. The address is one for documentation.
    let mut settings = node.settings();
    settings.path = "http://192.0.2.1:5642/t".into();
    let trouble = node.opened(&settings).trouble.unwrap();
    assert!(trouble.to_string().contains("without TLS"), "{trouble}");
}

#[test]
fn a_full_target_is_full_by_either_limit() {
    let node = Node::start_with(Transport::Plain, 3 << 20);
    let target = node.open();
    let mut full = (1..10).filter_map(|write| append(&*target, write, FRAME_BYTES).err());
    assert_eq!(full.next().unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(target.space().unwrap().capacity, 3 << 20);
    let places: Vec<_> = scan(&*target).into_iter().map(|(_, place)| place).collect();
    assert_eq!(places.len(), 2);
    target.free(&places).unwrap();
    append(&*target, 20, FRAME_BYTES).unwrap();
}
