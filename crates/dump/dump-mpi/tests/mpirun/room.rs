//! Versions flow to a place that becomes full.

use std::fs;
use std::path::Path;

use serde_json::json;
use terrace_testkit::{SmallDisk, noise};

use crate::flow::{flowed, packs};
use crate::nodes::{Nodes, said};

/// A flow that failed for lack of room left packs that took the room of all later versions. So did a version that a killed flow had not dropped.
#[test]
fn a_flow_that_failed_for_lack_of_room_blocks_no_later_one() {
    let (nodes, empty) = (Nodes::new(2), Nodes::new(2));
    let (from, out, to) = (nodes.file("in.{rank}"), nodes.file("out.{rank}"), nodes.file("pfs"));
    let Some(disk) = SmallDisk::mount("flows to a small place", Path::new(&to), "size=28m") else { return };
    let bytes = |rank: u32, round: u64| noise(6_300_000, 20 * round + 2 * u64::from(rank));
    let dump = |round, variables: &[(&str, &str)]| {
        (0..2).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), bytes(rank, round)).unwrap());
        let flags = ["dump", "state", &from, "--keep", "2", "--flow-to", &to, "--flow-keep", "1", "--json"];
        nodes.terrace_dump_with(2, &flags, &[variables, &[("TERRACE_FLOW_PACK", "1000000")]].concat())
    };
    let check = |version: u64| {
        let words = said(&empty.terrace_dump(2, &["restore", "state", &out, "--from", &to]));
        assert_eq!(words, format!("state version {version}: 2 files restored from {to}\n"));
        let same = |rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == bytes(rank, version);
        assert!((0..2).all(same), "version {version}");
    };
    let fail = |round| {
        let before = packs(&to).len();
        // Room for some of the packs.
        disk.fill_but(9 << 20);
        let failed = dump(round, &[]);
        let words = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && words.contains("look after that place"), "{words}");
        check(round - 1);
        disk.make_room();
        assert!(packs(&to).len() > before + 4, "it has left packs");
    };
    said(&dump(0, &[]));
    fail(1);
    for version in 2..4 {
        let done = dump(version, &[]);
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        let done = flowed(&done);
        assert_eq!(done["version"], json!(version));
        assert_eq!(words.matches("packs and 0 records that no version").count(), usize::from(version == 2), "{words}");
        check(version);
        assert_eq!(Some(packs(&to).len() as u64), done["packs"].as_u64());
    }
    // A flow is killed once it has made room, and one when its version is whole and the one before is still there.
    let short_watch = ("TERRACE_FLOW_WATCH_MS", "1000");
    fail(4);
    for (round, point) in [(5, "flow:room"), (7, "flow:complete")] {
        let killed = dump(round, &[("TERRACE_FAIL_POINT", point)]);
        assert!(!killed.status.success() && killed.status.code() != Some(124), "{point}: {}", killed.status);
        check(if point == "flow:room" { 3 } else { round });
        let done = flowed(&dump(round + 1, &[short_watch]));
        assert_eq!((&done["version"], &done["dropped"]), (&json!(round + 1), &json!(if round == 5 { 1 } else { 2 })));
        check(round + 1);
    }
}
