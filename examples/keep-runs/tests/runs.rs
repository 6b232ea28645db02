//! The example runs to its end, and what it says of places holds.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn it_keeps_all_steps() {
    let output = Command::new(env!("CARGO_BIN_EXE_keep-runs")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let places: Vec<&str> = printed.lines().filter(|line| line.starts_with("step ")).collect();
    let (before, after) = places.split_at(4);
    assert!(before[..3].iter().all(|line| line.contains("memory") && line.contains("disks")), "{printed}");
    assert!(before[3..].iter().chain(after).all(|line| line.ends_with("on disks, disks")), "{printed}");
}
