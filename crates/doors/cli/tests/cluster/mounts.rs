//! A mount on one node, whose kernel caches files that other nodes change.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use terrace_testkit::{Missing, Random, skip};

use crate::shared::{Node, Shared};

/// Takes the mount off, so that its folder can be removed.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// The next opening on this node reads the bytes that another node acknowledged, although the kernel has pages of older ones.
#[test]
fn the_next_opening_sees_what_another_node_has_put() {
    let test = "a mount of a node";
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        return skip(test, &Missing::new("fuse", error));
    }
    let Some(shared) = Shared::start(test) else { return };
    let at = shared.path("mnt");
    fs::create_dir(&at).unwrap();
    let mut mount = Node(shared.command(0, &["mount"]).arg(&at).stdout(Stdio::piped()).spawn().unwrap());
    let _unmounted = Unmounted(&at);
    let mut line = String::new();
    BufReader::new(mount.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("is mounted on"), "{line:?}");
    let mut random = Random::new(1);
    for round in 0..6 {
        let bytes = random.bytes(300_000 + [0, 7000, 0][round % 3]);
        assert!(shared.put(1 + round % 2, "f", &bytes));
        for _ in 0..3 {
            assert!(fs::read(at.join("f")).unwrap() == bytes, "round {round}");
        }
    }
}
