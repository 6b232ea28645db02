//! Calls that few programs make.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Place, have};

/// Some reached the kernel, which knows nothing of the prefix: the current directory was another one, and texts were lost.
#[test]
fn rare_calls_reach_the_store() {
    let place = Place::new();
    if !have("rare_calls_reach_the_store", &["cc"]) {
        return;
    }
    fs::write(place.dir.path().join("calls.c"), include_str!("calls.c")).unwrap();
    for flags in ["-O0", "-O2 -D_FORTIFY_SOURCE=2"] {
        place.sh(&format!("cc -std=gnu11 {flags} -o calls calls.c -ldl; ./calls; ls /terrace/d"));
        assert_eq!(place.sh("cat /terrace/out; rm -r /terrace/*"), "wide € 7\n");
    }
    // Nothing of it is left there, as of the C library's own file.
    let mut program = place.command(place.dir.path().join("calls"));
    let ran = program.arg("temporary").env("TERRACE_PREFIX", "/tmp").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(place.sh("ls -A /terrace"), "");
}
