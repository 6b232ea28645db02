//! `terrace job end` where a file system does not answer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use terrace_testkit::{Missing, skip, wait_until};

use crate::place::{Place, Ran, ran};
use crate::staging::{outcomes, pairs, short, slow_with};

/// A mount whose server can be stopped, as a network file system without its network.
struct StoppableMount {
    _store: Place,
    at: PathBuf,
    server: Child,
}

impl StoppableMount {
    /// Mounts a store in the folder `mount` of a place. None, with a counted skip, where this user may not mount.
    fn begin(test: &str, place: &Place) -> Option<StoppableMount> {
        if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
            skip(test, &Missing::new("fuse", error));
            return None;
        }
        let (store, at) = (Place::new(), place.path("mount"));
        fs::create_dir(&at).unwrap();
        let mut server = store.command(["mount", at.to_str().unwrap()]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is mounted on"), "{line:?}");
        Some(StoppableMount { _store: store, at, server })
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).unwrap();
    }
}

impl Drop for StoppableMount {
    fn drop(&mut self) {
        self.send(Signal::CONT);
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A store that needs seconds to read its big object.
fn slow() -> Place {
    slow_with("3MB/s", &["a", "big", "c"])
}

fn begin_end(place: &Place, to: &str, report: &str, rest: &[&str]) -> Child {
    let end = ["job", "end", "--to", to, "--save", "list", "--report", report];
    let mut command = place.command([&end[..], rest].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for an end whose file system does not answer.
fn ended(mut end: Child) -> Ran {
    wait_until("it has ended", || end.try_wait().unwrap().is_some());
    ran(end.wait_with_output().unwrap())
}

fn report(place: &Place) -> Value {
    serde_json::from_slice(&place.read("end.json")).unwrap()
}

/// Waits until the big object is being copied, and stops the destination.
fn stop_in_progress(place: &Place, mount: &StoppableMount) {
    let part = place.path("mount/results/.big.terrace-part");
    wait_until("it is in progress", || part.metadata().is_ok_and(|found| found.len() > 0));
    mount.send(Signal::STOP);
}

/// It waited for ever, since the tests gave deadlines to slow places only, each of whose calls ended. A process that has a file open there does not even
/// end by SIGKILL.
#[test]
fn an_end_whose_destination_hangs_ends_after_its_deadline() {
    let place = slow();
    let Some(mount) = StoppableMount::begin("a destination that hangs", &place) else { return };
    let end = begin_end(&place, "mount/results", "end.json", &["--deadline", "15s"]);
    stop_in_progress(&place, &mount);
    let Ran { code, err, out } = ended(end);
    assert!(code == 1 && err.contains("mount/results/") && err.contains("has not ended for"), "{err}");
    assert!(out.ends_with("1 object copied to mount/results (1 B), 0 there before, 0 failed, 2 left\n"), "{out}");
    let report = report(&place);
    assert_eq!(short(&report), pairs(&[("a", "copied"), ("big", "left"), ("c", "left")]));
    assert_eq!((&report["safe"], &report["left"]), (&json!(false), &json!(2)));
    for (_, _, reason) in outcomes(&report).into_iter().skip(1) {
        assert!(reason.contains("has not ended for") && reason.contains("the deadline has passed"), "{report}");
    }
    // The destination answers again.
    mount.send(Signal::CONT);
    let (report, code) = place.json(["job", "end", "--to", "mount/results", "--save", "list"]);
    assert_eq!((&report["safe"], code), (&json!(true), 0), "{report}");
}

#[test]
fn an_end_whose_destination_hangs_from_the_beginning_ends_after_its_deadline() {
    let place = slow();
    let Some(mount) = StoppableMount::begin("a destination that hangs from the beginning", &place) else { return };
    mount.send(Signal::STOP);
    let end = begin_end(&place, "mount/results", "end.json", &["--deadline", "1s"]);
    let Ran { code, err, .. } = ended(end);
    assert!(code == 1 && err.contains("opening mount/results has not ended for"), "{err}");
    assert_eq!(short(&report(&place)), pairs(&["a", "big", "c"].map(|key| (key, "left"))));
}

#[test]
fn an_end_whose_second_process_is_killed_says_so() {
    let place = slow();
    let end = begin_end(&place, "results", "end.json", &[]);
    wait_until("it is in progress", || place.path("results/.big.terrace-part").exists());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", end.id())).unwrap();
    let child = children.trim().parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    let Ran { code, err, .. } = ended(end);
    assert!(code == 1 && err.contains("was ended by signal 9"), "{code} {err}");
    assert_eq!(report(&place)["safe"], json!(false));
}

/// Nothing was copied, and the command waited for ever.
#[test]
fn an_end_whose_report_hangs_copies_all_and_says_so() {
    let place = slow();
    let Some(mount) = StoppableMount::begin("a report that hangs", &place) else { return };
    mount.send(Signal::STOP);
    let end = begin_end(&place, "results", "mount/end.json", &["--deadline", "10m"]);
    let Ran { code, err, out } = ended(end);
    assert!(code == 1 && err.contains("there is no report: mount/end.json does not answer"), "{err}");
    assert!(out.starts_with("3 objects copied to results"), "{out}");
    // It hangs later: the report has begun.
    mount.send(Signal::CONT);
    fs::remove_dir_all(place.path("results")).unwrap();
    let end = begin_end(&place, "results", "mount/end.json", &["--deadline", "15s"]);
    wait_until("it is in progress", || place.path("results/.big.terrace-part").exists());
    mount.send(Signal::STOP);
    let Ran { code, err, .. } = ended(end);
    assert!(code == 1 && err.contains("mount/end.json is not current"), "{err}");
    assert!(place.path("results/a").exists());
}

/// SIGTERM had no effect.
#[test]
fn an_end_whose_destination_hangs_ends_by_signals() {
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 1)] {
        let place = slow();
        let Some(mount) = StoppableMount::begin("signals while a destination hangs", &place) else { return };
        let end = begin_end(&place, "mount/results", "end.json", &[]);
        stop_in_progress(&place, &mount);
        kill_process(Pid::from_child(&end), signal).unwrap();
        let Ran { code, err, .. } = ended(end);
        assert_eq!(code, expected, "{err}");
        let report = report(&place);
        assert_eq!(report["safe"], json!(false));
        if signal == Signal::TERM {
            assert!(err.contains("has not ended for") && err.contains("SIGTERM has come"), "{err}");
            assert_eq!(short(&report), pairs(&[("a", "copied"), ("big", "left"), ("c", "left")]));
        }
    }
}
