//! `terrace run`, as its guide says.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{have, installed, python_program, run};
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, skip};

#[test]
fn the_guide_to_programs_works_as_it_says() {
    let Some((place, programs)) = installed("the_guide_to_programs_works_as_it_says") else { return };
    let below = |path: &str| place.dir.path().join(path).display().to_string();
    let mpirun = "mpirun --allow-run-as-root --oversubscribe".to_owned();
    let replaced = [("/usr/local/lib", below("lib")), ("/data/store", below("store")), ("mpirun", mpirun)];
    // The guide's Python has h5py.
    let python = format!("#!/bin/sh\nexec '{}' \"$@\"\n", python_program().display());
    fs::write(programs.join("python3"), python).unwrap();
    fs::set_permissions(programs.join("python3"), Permissions::from_mode(0o755)).unwrap();
    let folder = place.dir.path();
    let guide = Guide { name: "programs.md", folder, programs: &programs, replaced: &replaced, before: &|_| {} };
    assert!(guide.run() > 5);
}

#[test]
fn a_program_that_no_library_serves_is_refused() {
    let Some((place, _)) = installed("a_program_that_no_library_serves_is_refused") else { return };
    if !have("a_program_that_no_library_serves_is_refused", &["cc"]) {
        return;
    }
    fs::write(place.dir.path().join("main.c"), "int main(void) { return 0; }\n").unwrap();
    place.sh("cc -static -o main main.c");
    let refused = run(&place, &["--by", "preload", "--", "./main"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("./main is statically linked"), "{said}");
    fs::remove_file(place.dir.path().join("lib/libterrace_preload.so")).unwrap();
    let missing = run(&place, &["--by", "preload", "--", "true"]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && said.contains("libterrace_preload.so is neither in"), "{said}");
}

#[test]
fn hdf5_finds_the_driver_and_what_else_it_was_to_find() {
    let Some((place, programs)) = installed("hdf5_finds_the_driver_and_what_else_it_was_to_find") else { return };
    let shown = "echo $HDF5_DRIVER $HDF5_PLUGIN_PATH $TERRACE_PREFIX $TERRACE_STORE $LD_PRELOAD";
    let run = || {
        let mut command = Command::new(programs.join("terrace"));
        command.args(["run", "--by", "hdf5", "--prefix", "/data", "--", "sh", "-c", shown]);
        command.env("TERRACE_STORE", place.dir.path().join("store")).env("HDF5_PLUGIN_PATH", "/others");
        command.output().unwrap()
    };
    let there = place.dir.path().canonicalize().unwrap().display().to_string();
    let said = String::from_utf8(run().stdout).unwrap();
    assert_eq!(said, format!("terrace {there}/lib/terrace/hdf5:/others /data {there}/store\n"));
    fs::remove_file(place.dir.path().join("lib/terrace/hdf5/libterrace_hdf5.so")).unwrap();
    let missing = run();
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && said.contains("libterrace_hdf5.so is neither in"), "{said}");
}

#[test]
fn a_mount_is_preferred() {
    let Some((place, _)) = installed("a_mount_is_preferred") else { return };
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return skip("a_mount_is_preferred", &Missing::new("fuse", error));
    }
    if !Command::new("unshare").args(["-Um", "true"]).status().is_ok_and(|status| status.success()) {
        return skip("a_mount_is_preferred", &Missing::new("namespaces", "`unshare -Um true` fails"));
    }
    let empty = place.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let script = "grep -c terrace.*empty /proc/mounts; echo words > empty/notes; exit 9";
    let ran = run(&place, &["--prefix", empty.to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(9), b"1\n".as_slice()), "{ran:?}");
    assert_eq!(place.store().get(b"notes").unwrap(), b"words\n");
    assert!(fs::read_dir(&empty).unwrap().next().is_none(), "the mount is still there");
}
