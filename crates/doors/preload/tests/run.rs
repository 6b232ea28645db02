//! `terrace run`, as its guide says.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::process::Command;

use common::{have, installed, run};
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, skip};

#[test]
fn the_guide_to_programs_works_as_it_says() {
    let Some((place, programs)) = installed("the_guide_to_programs_works_as_it_says") else { return };
    let below = |path: &str| place.dir.path().join(path).display().to_string();
    let mpirun = "mpirun --allow-run-as-root --oversubscribe".to_owned();
    let replaced = [("/usr/local/lib", below("bin")), ("/data/store", below("store")), ("mpirun", mpirun)];
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
    fs::remove_file(place.dir.path().join("bin/libterrace_preload.so")).unwrap();
    let missing = run(&place, &["--by", "preload", "--", "true"]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && said.contains("libterrace_preload.so is neither in"), "{said}");
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
