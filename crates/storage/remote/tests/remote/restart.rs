//! Nodes that are started again, after an orderly end or after their machine went down.

use std::fs;

use crate::node::{Node, Transport, append, bytes, read, scan};

/// Changes the node's note as if its machine had gone down while the node ran.
fn pretend_power_loss(node: &Node) {
    let state = node.disk().join("node/state");
    let text = fs::read_to_string(&state).unwrap();
    let incarnation = text.split(' ').next().unwrap();
    fs::write(state, format!("{incarnation} another-boot used\n")).unwrap();
}

#[test]
fn segments_of_an_earlier_run_are_not_appended_to() {
    let mut node = Node::start(Transport::Plain);
    let target = node.open();
    target.forget_new().unwrap();
    let first = append(&*target, 1, 5000).unwrap();
    assert_eq!(append(&*target, 2, 5000).unwrap().segment, first.segment);
    node.stop();
    node.restart();
    let later = append(&*target, 3, 5000).unwrap();
    assert_ne!(later.segment, first.segment);
    assert!(read(&*target, first).unwrap() == bytes(1, 5000));
    target.sync(&[first.segment, later.segment]).unwrap();
    assert!(!target.is_new(), "nothing is lost by an orderly end");
}

#[test]
fn frames_that_a_power_loss_took_are_noticed_before_a_sync_counts() {
    let mut node = Node::start(Transport::Plain);
    let target = node.open();
    target.forget_new().unwrap();
    let whole = append(&*target, 1, 5000).unwrap();
    let torn = append(&*target, 2, 5000).unwrap();
    let lost = append(&*target, 3, 5000).unwrap();
    node.stop();
    pretend_power_loss(&node);
    let file = fs::File::options().write(true).open(node.segments().pop().unwrap()).unwrap();
    // Its header is there and ends in zeros; the last frame is not there at all.
    file.set_len(torn.offset + 1000).unwrap();
    file.set_len(lost.offset).unwrap();
    node.restart();
    let segments = [whole.segment];
    let error = target.sync(&segments).unwrap_err();
    assert!(error.to_string().contains("went down"), "{error}");
    assert!(target.is_new());
    target.sync(&segments).unwrap_err();
    // Another process of the store notices it, too, and is told only of whole frames.
    let other = node.open();
    assert!(other.is_new());
    assert_eq!(scan(&*other), [(1, whole)]);
    other.forget_new().unwrap();
    assert!(!other.is_new() && !target.is_new());
    target.sync(&segments).unwrap();
    other.sync(&segments).unwrap();
}

/// A target is not forgotten to be doubtful if nobody has looked at it.
#[test]
fn a_doubt_stays_until_a_scan_has_ended() {
    let mut node = Node::start(Transport::Plain);
    let target = node.open();
    target.forget_new().unwrap();
    append(&*target, 1, 5000).unwrap();
    node.stop();
    pretend_power_loss(&node);
    node.restart();
    target.check_again().unwrap();
    target.forget_new().unwrap();
    assert!(target.is_new());
    scan(&*target);
    target.forget_new().unwrap();
    assert!(!target.is_new());
}

#[test]
fn two_nodes_do_not_serve_one_directory() {
    let node = Node::start(Transport::Plain);
    let target = node.open();
    append(&*target, 1, 100).unwrap();
    let mut second = Node::start(Transport::Plain);
    second.stop();
    std::os::unix::fs::symlink(node.disk(), second.disk()).unwrap();
    second.restart();
    let trouble = node.opened(&second.settings_at(second.address)).trouble.unwrap();
    assert!(trouble.to_string().contains("another node"), "{trouble}");
    append(&*target, 2, 100).unwrap();
}
