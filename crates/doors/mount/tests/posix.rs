//! Test suites for file systems.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;

use common::{Mounted, run, tool};
use terrace_testkit::{Missing, skip};

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Random reads, writes, truncations and maps of one file, checked byte by byte.
#[test]
fn fsx_finds_no_wrong_byte() {
    let (Some(fsx), Some(mounted)) = (tool("fsx"), Mounted::new()) else { return };
    let (operations, seeds) = (number("TERRACE_FSX", 10_000), number("TERRACE_FSX_SEEDS", 1));
    for seed in 1..=seeds {
        let (operations, seed) = (operations.to_string(), seed.to_string());
        run(&fsx, ["-N", &operations, "-S", &seed, "file"], &mounted.at);
        println!("fsx: {operations} operations, seed {seed}");
    }
}

/// The configuration lists each failing test with its reason, and only failing tests.
#[test]
fn pjdfstest_fails_only_the_listed_tests() {
    let (Some(suite), Some(mounted)) = (tool("pjdfstest"), Mounted::new()) else { return };
    if !is_root() {
        return skip("pjdfstest_fails_only_the_listed_tests", &Missing::new("root", "pjdfstest changes its user"));
    }
    let at = mounted.at.join("suite");
    fs::create_dir(&at).unwrap();
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pjdfstest.toml");
    let arguments = ["-c".as_ref(), configuration.as_os_str(), "-p".as_ref(), at.as_os_str()];
    let said = run(&suite, arguments, &mounted.at);
    let summary = said.lines().find(|line| line.starts_with("Summary:")).unwrap();
    let listed = fs::read_to_string(configuration).unwrap().lines().filter(|line| line.starts_with("    \"")).count();
    assert!(summary.contains(&format!("{listed} expected failures")), "{listed} are listed; {summary}");
    println!("pjdfstest: {summary}");
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}
