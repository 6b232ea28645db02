//! The order of system calls, as strace shows it: bytes are synced before progress is recorded, and the log is synced
//! before any of its bytes reach a destination.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::settings;
use terrace::{Ack, Store};
use terrace_stream::destinations::Files;
use terrace_stream::{Control, Request, Stream};
use terrace_testkit::{Missing, skip};

/// Not a test: the traced program.
#[test]
fn traced() {
    let Ok(dir) = std::env::var("TERRACE_TRACED") else { return };
    let dir = Path::new(&dir);
    let store = Store::open(&dir.join("store")).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    for n in 0..40 {
        stream.append(vec![Request::append(format!("f{}", n % 3), format!("request {n};"))]).unwrap();
    }
    let control = Arc::new(Control::default());
    control.drain();
    let to = Arc::new(Files::new(&dir.join("archive")).unwrap());
    stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap();
}

#[test]
fn bytes_are_synced_before_progress_is_recorded() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return skip("the order of syncs", &Missing::new("programs", "strace is not installed"));
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(common::store(dir));
    let trace = dir.join("trace");
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-y",
        "-s",
        "65536",
        "-e",
        "trace=pwrite64,pwritev,pwritev2,write,writev,fsync,fdatasync,ftruncate",
        "-o",
    ]);
    command.arg(&trace).arg(std::env::current_exe().unwrap()).args(["--exact", "traced"]);
    command.env("TERRACE_TRACED", dir).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let trace = std::fs::read_to_string(&trace).unwrap();
    let (archive, log) = (dir.join("archive").display().to_string(), dir.join("store/log").display().to_string());
    let disk = dir.join("disk/segments").display().to_string();
    // The files with unsynced bytes, and the number of times that each kind of event was seen.
    let mut unsynced: HashSet<String> = HashSet::new();
    let (mut marks, mut writes) = (0, 0);
    for line in trace.lines() {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let call = call.split_whitespace().last().unwrap_or_default();
        let file = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(file, _)| file);
        let is_write = call.starts_with("pwrite") || call.starts_with("write");
        if call.contains("sync") {
            unsynced.remove(file);
        } else if is_write && file.starts_with(&archive) {
            // The log and its frames were synced since the last page was written to them.
            assert!(!unsynced.iter().any(|file| file.starts_with(&disk)), "a page was not synced: {line}");
            unsynced.insert(file.to_owned());
            writes += 1;
        } else if is_write && file.starts_with(&disk) {
            unsynced.insert(file.to_owned());
        } else if is_write && file.starts_with(&log) && rest.contains("done log") {
            // Commits record the progress of destinations, one or several at once. None of these destinations may have
            // unsynced bytes.
            for of in (0..3).filter(|n| rest.contains(&format!("/to/f{n}"))) {
                let file = format!("{archive}/f{of}");
                assert!(!unsynced.contains(&file), "{file} is not synced: {line}");
                marks += 1;
            }
        }
    }
    assert!(marks >= 3 && writes >= 3, "{marks} marks, {writes} writes in {} lines", trace.lines().count());
    println!("{writes} writes to destinations and {marks} commits that tell of them, in order");
}
