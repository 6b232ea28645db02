//! Programs that are killed while they write: what they had closed is whole, and all other files are as they were.
//!
//! `TERRACE_KILLS` is the number of kills, and `TERRACE_SEED` chooses their moments.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::Duration;

use common::{Place, have};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use terrace_testkit::{Random, wait_until};

/// The longest time between the first file that was closed and the kill.
const MAX_WRITING_MILLISECONDS: u64 = 600;

/// A program that writes into `/terrace/w`, one file or change after the other.
struct Writer {
    name: &'static str,
    /// Writes the number of each to `done` when it is closed.
    script: &'static str,
    outcome: Outcome,
}

enum Outcome {
    /// Files of the numbers, with this suffix, that equal this file outside. The next one is its beginning, or is not there.
    Files(&'static str, &'static str),
    /// As `Files`, but the next one may have anything in it: it is written in no order.
    WholeFiles(&'static str),
    /// A script that looks at what is there, and fails if the first `$last` changes are not.
    Checked(&'static str),
}

/// Makes what the programs need, outside the store.
const PREPARE_SCRIPT: &str = r#"
    head -c 3000000 /dev/urandom > input; seq 0 59999 > numbers; gzip -nc input > packed
    mkdir -p tree/a; cp input tree/a/random; cp numbers tree/numbers; for n in 1 2 3 4; do echo $n > tree/a/$n; done; tar -cf archive tree
    for n in $(seq 300); do echo "int part_$n(int a) { return a * $n + part_$((n - 1))(a); }"; done | sed '1i int part_0(int a) { return a; }' > part.c; cc -c -o object part.c
    cc -O1 -o stdio kills.c; gfortran -o fortran kills.f90
    git config --global user.name a; git config --global user.email a@example.org; git config --global init.defaultBranch main
"#;

const ALL_WRITERS: [Writer; 11] = [
    Writer {
        name: "cp",
        script: "for i in $(seq 1000); do cp input /terrace/w/$i; echo $i >> done; done",
        outcome: Outcome::Files("input", ""),
    },
    Writer {
        name: "dd",
        script: "for i in $(seq 1000); do dd if=input of=/terrace/w/$i bs=7777 status=none; echo $i >> done; done",
        outcome: Outcome::Files("input", ""),
    },
    Writer {
        name: "tar",
        script: "for i in $(seq 1000); do tar -cf /terrace/w/$i tree; echo $i >> done; done",
        outcome: Outcome::Files("archive", ""),
    },
    Writer {
        name: "gzip",
        script: "for i in $(seq 1000); do cp -p input /terrace/w/$i; gzip -n /terrace/w/$i; echo $i >> done; done",
        outcome: Outcome::Files("packed", ".gz"),
    },
    Writer {
        name: "rsync",
        script: "for i in $(seq 1000); do rsync -a tree/ /terrace/w/$i; echo $i >> done; done",
        // Each file gets its name when it is whole.
        outcome: Outcome::Checked(
            "for i in $(seq $last); do diff -r ~/tree /terrace/w/$i; done
            mkdir -p /terrace/w/$((last + 1)); cd /terrace/w/$((last + 1)); ! find . -type f ! -name '.*' -exec cmp {} ~/tree/{} \\; 2>&1 | grep .",
        ),
    },
    Writer {
        name: "git",
        script: "cd /terrace/w; git init -q; for i in $(seq 1000); do echo $i > f; git add f; git commit -qm $i; echo $i >> ~/done; done",
        outcome: Outcome::Checked(
            "cd /terrace/w; find .git -name '*.lock' -delete; git fsck --strict; [ $(git rev-list --count HEAD) -ge $last ]
            git reset -q --hard; [ $(cat f) -ge $last ]; git log --format=%s | tac | cmp - <(seq $(cat f))",
        ),
    },
    Writer {
        name: "sqlite3",
        script: "cd /terrace/w; sqlite3 db 'create table t(a)'; for i in $(seq 1000); do sqlite3 db \"insert into t values($i)\"; echo $i >> ~/done; done",
        outcome: Outcome::Checked(
            "cd /terrace/w; sqlite3 db 'pragma integrity_check' | grep -qx ok
            [ $(sqlite3 db \"select count(*) = max(a) and max(a) >= $last from t\") = 1 ]",
        ),
    },
    Writer {
        name: "gcc",
        script: "for i in $(seq 1000); do gcc -c -o /terrace/w/$i part.c; echo $i >> done; done",
        outcome: Outcome::WholeFiles("object"),
    },
    Writer {
        name: "vim",
        script: "for i in $(seq 1000); do vim -es -u NONE -c \"w /terrace/w/$i\" -c q numbers < /dev/null; echo $i >> done; done",
        outcome: Outcome::Files("numbers", ""),
    },
    Writer { name: "C", script: "./stdio", outcome: Outcome::Files("numbers", "") },
    Writer { name: "Fortran", script: "./fortran", outcome: Outcome::Files("numbers", "") },
];

#[test]
fn killed_writers_leave_whole_what_they_closed() {
    let test = "killed_writers_leave_whole_what_they_closed";
    if !have(test, &["tar", "gzip", "rsync", "git", "sqlite3", "gcc", "vim", "gfortran"]) {
        return;
    }
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (kills, seed) = (number("TERRACE_KILLS", ALL_WRITERS.len() as u64), number("TERRACE_SEED", 1));
    let place = Place::new();
    fs::write(place.dir.path().join("kills.c"), include_str!("kills.c")).unwrap();
    fs::write(place.dir.path().join("kills.f90"), include_str!("kills.f90")).unwrap();
    place.sh(PREPARE_SCRIPT);
    place.sh("mkdir /terrace/kept; cp input numbers packed archive /terrace/kept");
    let mut random = Random::new(seed);
    let (mut closed, mut unfinished) = (0, 0);
    for kill in 0..kills {
        let writer = &ALL_WRITERS[kill as usize % ALL_WRITERS.len()];
        let last = run_and_kill(&place, writer, random.below(MAX_WRITING_MILLISECONDS));
        closed += last;
        unfinished += u64::from(check(&place, writer, last));
        let store = place.store();
        for name in ["input", "numbers", "packed", "archive"] {
            let kept = store.get(format!("kept/{name}").as_bytes()).unwrap();
            assert!(kept == fs::read(place.dir.path().join(name)).unwrap(), "{}: {name} has changed", writer.name);
        }
        let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "{}", writer.name);
        drop(store);
        place.sh("rm -rf /terrace/w; test -z \"$(find /terrace -name w)\"");
    }
    println!("{kills} kills with seed {seed}: {closed} files and changes were closed, {unfinished} files were not");
}

/// Kills all processes of a writer. Returns the number of the last file or change that it had closed.
fn run_and_kill(place: &Place, writer: &Writer, delay: u64) -> u64 {
    let done = place.dir.path().join("done");
    fs::write(&done, "").unwrap();
    let script = format!("mkdir -p /terrace/w; {}", writer.script);
    let mut command = place.command("bash");
    let mut child = command.args(["-euc", &script]).process_group(0).spawn().unwrap();
    let numbers = || fs::read_to_string(&done).unwrap();
    wait_until(&format!("{} has closed a file", writer.name), || {
        assert!(child.try_wait().unwrap().is_none(), "{} has ended", writer.name);
        numbers().contains('\n')
    });
    thread::sleep(Duration::from_millis(delay));
    let group = Pid::from_child(&child);
    kill_process_group(group, Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until("all of its processes have ended", || test_kill_process_group(group).is_err());
    let last = numbers().lines().last().map(|line| line.trim().parse().unwrap());
    last.unwrap()
}

/// Looks at what a killed writer has left. Returns whether a file was being written.
fn check(place: &Place, writer: &Writer, last: u64) -> bool {
    let (expected, suffix, in_order) = match writer.outcome {
        Outcome::Files(expected, suffix) => (expected, suffix, true),
        Outcome::WholeFiles(expected) => (expected, "", false),
        Outcome::Checked(script) => {
            place.sh(&format!("last={last}\n{script}"));
            return false;
        }
    };
    let expected = fs::read(place.dir.path().join(expected)).unwrap();
    let store = place.store();
    let get = |number: u64| store.get(format!("w/{number}{suffix}").as_bytes());
    for number in 1..=last {
        assert!(get(number).unwrap() == expected, "{}: file {number} of {last} is not whole", writer.name);
    }
    let Ok(next) = get(last + 1) else { return false };
    assert!(!in_order || expected.starts_with(&next), "{}: file {} is no beginning", writer.name, last + 1);
    next != expected
}
