//! Programs that enter the kernel themselves, below `terrace run`: static ones of C, busybox, and one of Go.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use common::{Place, have, installed, run};
use terrace::files::Owner;
use terrace::{Config, Files, Store};
use terrace_testkit::{Missing, skip, wait_until};

const GO_PROGRAM: &str = r#"
package main

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	must(os.MkdirAll("/terrace/go/deep", 0o755))
	var all sync.WaitGroup
	for number := range 20 {
		all.Go(func() { must(os.WriteFile(fmt.Sprintf("/terrace/go/%d", number), make([]byte, number*1000), 0o644)) })
	}
	all.Wait()
	must(os.Rename("/terrace/go/19", "/terrace/go/deep/renamed"))
	bytes, files := 0, 0
	must(fs.WalkDir(os.DirFS("/terrace/go"), ".", func(path string, entry fs.DirEntry, err error) error {
		must(err)
		if !entry.IsDir() {
			read, err := os.ReadFile("/terrace/go/" + path)
			must(err)
			bytes, files = bytes+len(read), files+1
		}
		return nil
	}))
	must(os.RemoveAll("/terrace/go"))
	fmt.Println(files, bytes)
}
"#;

fn said(output: &Output) -> (Option<i32>, String) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!err.contains("error"), "{out}\n{err}");
    (output.status.code(), out.into_owned())
}

/// Runs a program without a mount, whatever this machine allows: the prefix does not exist.
fn run_in(place: &Place, program: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["--quiet", "--"], program].concat();
    said(&run(place, &arguments))
}

#[test]
fn a_static_program_gets_right_answers() {
    let test = "a_static_program_gets_right_answers";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["cc", "busybox"]) {
        return;
    }
    fs::write(place.dir.path().join("main.c"), include_str!("supervised.c")).unwrap();
    place.sh("cc -static -o main main.c");
    assert_eq!(run_in(&place, &["./main"]), (Some(7), "all answers are right\n".to_owned()));
    let store = place.store();
    assert_eq!(store.get(b"last").unwrap(), b"last\n");
    assert_eq!(store.list(b"", None, 10).unwrap().len(), 1, "only the last file is left");
    assert!(place.dir.path().join("outside").exists());
    let listings = place.dir.path().join("store/preload/listings");
    assert_eq!(fs::read_dir(&listings).unwrap().count(), 0, "listings are left");
    // The next supervisor removes those of a killed one.
    fs::create_dir_all(listings.join("1/0/entry")).unwrap();
    assert_eq!(run_in(&place, &["busybox", "true"]).0, Some(0));
    assert_eq!(fs::read_dir(&listings).unwrap().count(), 0, "listings of a killed supervisor are left");
}

#[test]
fn busybox_copies_lists_and_removes() {
    let test = "busybox_copies_lists_and_removes";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let script = "
        busybox seq 50000 > numbers; busybox mkdir -p /terrace/a/b; busybox cp numbers /terrace/a/b/numbers
        busybox cmp numbers /terrace/a/b/numbers && echo same; busybox sort -rn /terrace/a/b/numbers | busybox head -n 1
        busybox sed -i 's/^7$/seven/' /terrace/a/b/numbers; busybox grep -c seven /terrace/a/b/numbers
        busybox cp -r /terrace/a /terrace/c; busybox find /terrace -type f | busybox sort; busybox mv /terrace/c/b/numbers /terrace/moved
        busybox ls /terrace; busybox wc -l < /terrace/moved; busybox tar -cf /terrace/t.tar numbers; busybox tar -tf /terrace/t.tar
        busybox rm -r /terrace/a /terrace/c; busybox ls /terrace; echo redirected >> /terrace/moved; busybox tail -n 1 /terrace/moved
    ";
    let (code, printed) = run_in(&place, &["busybox", "sh", "-ec", script]);
    assert_eq!(
        printed,
        "same\n50000\n1\n/terrace/a/b/numbers\n/terrace/c/b/numbers\na\nc\nmoved\n50000\nnumbers\nmoved\nt.tar\nredirected\n"
    );
    assert_eq!(code, Some(0));
}

#[test]
fn a_program_of_go_gets_right_answers() {
    let test = "a_program_of_go_gets_right_answers";
    let Some((place, _)) = installed(test) else { return };
    let go = ["/usr/local/go/bin/go", "/usr/bin/go"].into_iter().find(|path| Path::new(path).exists());
    let Some(go) = go else { return skip(test, &Missing::new("go", "Go is not installed")) };
    fs::write(place.dir.path().join("main.go"), GO_PROGRAM).unwrap();
    let mut build = Command::new(go);
    build.args(["build", "-o", "main", "main.go"]).current_dir(place.dir.path()).env("CGO_ENABLED", "0");
    build.env("GOCACHE", std::env::temp_dir().join("terrace-go-cache")).env("GO111MODULE", "off");
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(run_in(&place, &["./main"]), (Some(0), "20 190000\n".to_owned()));
}

#[test]
fn a_dynamic_program_and_its_static_children_see_the_same_files() {
    let test = "a_dynamic_program_and_its_static_children_see_the_same_files";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let script = "echo by bash > /terrace/f; busybox cat /terrace/f; busybox sh -c 'echo by busybox >> /terrace/f'; cat /terrace/f; exit 4";
    let ran = run(&place, &["--by", "supervisor", "--", "bash", "-c", script]);
    let (code, printed) = said(&ran);
    assert_eq!((code, printed.as_str()), (Some(4), "by bash\nby bash\nby busybox\n"));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("setuid programs"));
}

#[test]
fn files_closed_before_a_kill_are_there() {
    let test = "files_closed_before_a_kill_are_there";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let script = "echo closed > /terrace/closed; kill -9 $$";
    assert_eq!(run_in(&place, &["busybox", "sh", "-c", script]).0, Some(128 + 9));
    assert_eq!(place.store().get(b"closed").unwrap(), b"closed\n");
}

#[test]
fn two_runs_append_to_one_file() {
    let test = "two_runs_append_to_one_file";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let append = |name: &str| {
        let script = format!("for i in $(busybox seq 100); do echo {name} $i >> /terrace/lines; done");
        assert_eq!(run_in(&place, &["busybox", "sh", "-ec", &script]).0, Some(0));
    };
    thread::scope(|threads| {
        threads.spawn(|| append("first"));
        append("second");
    });
    let text = String::from_utf8(place.store().get(b"lines").unwrap()).unwrap();
    for name in ["first", "second"] {
        let own: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
        let wanted: Vec<String> = (1..=100).map(|number| format!(" {number}")).collect();
        assert_eq!(own, wanted, "{name}");
    }
    assert_eq!(text.lines().count(), 200);
}

#[test]
fn a_file_keeps_what_others_write_while_it_is_open() {
    let test = "a_file_keeps_what_others_write_while_it_is_open";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let owner = Owner { uid: 0, gid: 0 };
    let files = Files::new(&place.store()).unwrap();
    let (changed, appended) =
        (files.create(b"changed", 0o644, owner, true).unwrap(), files.create(b"appended", 0o644, owner, true).unwrap());
    changed.write_at(0, &[b'.'; 300]).unwrap();
    appended.append(b"old\n").unwrap();
    changed.flush().unwrap();
    appended.flush().unwrap();
    // The program writes, waits, and writes again before it closes. One of the two descriptors of a file is closed in between.
    let script =
        "exec 3<>/terrace/changed 4>>/terrace/appended; echo -n begin >&3; echo one >&4; echo two >>/terrace/appended
        : > ready; until [ -e written ]; do busybox usleep 10000; done
        echo -n more >&3; echo three >&4; exec 3>&- 4>&-; busybox head -n 1 /terrace/appended";
    thread::scope(|threads| {
        let run = threads.spawn(|| run_in(&place, &["busybox", "sh", "-ec", script]));
        let ready = place.dir.path().join("ready");
        wait_until("the program has written", || ready.exists());
        changed.write_at(200, b"OTHERS").unwrap();
        changed.append(b"END").unwrap();
        appended.append(b"others\n").unwrap();
        changed.flush().unwrap();
        appended.flush().unwrap();
        fs::write(place.dir.path().join("written"), "").unwrap();
        assert_eq!(run.join().unwrap(), (Some(0), "old\n".to_owned()));
    });
    let store = place.store();
    assert_eq!(String::from_utf8(store.get(b"appended").unwrap()).unwrap(), "old\none\ntwo\nothers\nthree\n");
    let text = String::from_utf8(store.get(b"changed").unwrap()).unwrap();
    assert_eq!(text, format!("beginmore{}OTHERS{}END", ".".repeat(191), ".".repeat(94)));
}

#[test]
fn a_file_for_which_there_is_no_room_is_named() {
    let test = "a_file_for_which_there_is_no_room_is_named";
    let Some((place, _)) = installed(test) else { return };
    if !have(test, &["busybox"]) || !is_static(test, Path::new("/bin/busybox")) {
        return;
    }
    let (store, tier) = (place.dir.path().join("store"), place.dir.path().join("small"));
    fs::remove_dir_all(&store).unwrap();
    let tiers =
        format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '4MiB'\n", tier.display());
    Store::init(&store, &Config::parse(&tiers, test).unwrap()).unwrap();
    let script = "busybox head -c 9000000 /dev/urandom > /terrace/large; echo small > /terrace/small";
    let ran = run(&place, &["--quiet", "--", "busybox", "sh", "-c", script]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && told.contains("\"large\"") && !told.contains("\"small\""), "{told}");
    assert_eq!(place.store().get(b"small").unwrap(), b"small\n");
}

/// Whether a program is static: some systems have a busybox that is not.
fn is_static(test: &str, program: &Path) -> bool {
    let described = Command::new("readelf").arg("-l").arg(program).output();
    let is_static = described.is_ok_and(|output| !String::from_utf8_lossy(&output.stdout).contains("INTERP"));
    if !is_static {
        skip(test, &Missing::new("programs", "busybox-static is not installed"));
    }
    is_static
}
