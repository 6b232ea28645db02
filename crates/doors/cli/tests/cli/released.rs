//! Installed programs have none of the hooks by which tests kill them or lower their limits. Every user's environment reached
//! them: a variable left over from a debugging session could abort each command, or make a reboot look like none.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::place::{Place, noise};

const HOOK_VARIABLES: [&str; 6] = [
    "TERRACE_FAIL_POINT",
    "TERRACE_BOOT_ID",
    "TERRACE_LOG_FILE",
    "TERRACE_STAGE_BYTES",
    "TERRACE_NO_SPACE_MILLISECONDS",
    "TERRACE_LEASES",
];

/// The hooks whose names are in a program's file.
fn find_hooks(binary: &Path) -> Vec<&'static str> {
    let bytes = fs::read(binary).unwrap();
    let is_named = |hook: &&str| bytes.windows(hook.len()).any(|window| window == hook.as_bytes());
    HOOK_VARIABLES.into_iter().filter(is_named).collect()
}

/// The signal by which a put ends that is asked to die once its bytes are written.
fn signal_of_put_that_should_die(binary: &Path) -> Option<i32> {
    let place = Place::new();
    place.write("a", noise(100_000, 1));
    let mut command = Command::new(binary);
    command.args(["put", "a", "a"]).current_dir(place.path("")).env("TERRACE_STORE", place.path("store"));
    let output = command.env("TERRACE_FAIL_POINT", "put:written").output().unwrap();
    output.status.signal()
}

#[test]
#[ignore = "make soak builds the release binary, which TERRACE_RELEASED names"]
fn a_release_build_has_no_hooks_of_tests() {
    let developed = Path::new(env!("CARGO_BIN_EXE_terrace"));
    assert_eq!(find_hooks(developed), HOOK_VARIABLES);
    assert!(signal_of_put_that_should_die(developed).is_some());

    let released = std::env::var_os("TERRACE_RELEASED").expect("TERRACE_RELEASED names a release build of terrace");
    assert_eq!(find_hooks(Path::new(&released)), [""; 0]);
    assert_eq!(signal_of_put_that_should_die(Path::new(&released)), None);
}
