//! Versions flow to a place that outlives the nodes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use terrace::tier::{Blobs, ServiceAddress};
use terrace_testkit::{Moto, noise, skip};

use crate::nodes::{Nodes, bytes, compile, said};

/// The names of packs below a place that versions flow to, with what changes if one is written again.
pub fn packs(to: &str) -> BTreeMap<String, (u64, SystemTime)> {
    let entries = fs::read_dir(Path::new(to).join("dumps/state/packs")).into_iter().flatten().map(Result::unwrap);
    let written = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let state = |entry: fs::DirEntry| {
        let found = entry.metadata().unwrap();
        (entry.file_name().into_string().unwrap(), (found.ino(), found.modified().unwrap()))
    };
    written.map(state).collect()
}

pub fn flowed(output: &Output) -> Value {
    let words = said(output);
    serde_json::from_str(words.lines().last().unwrap()).unwrap()
}

#[test]
fn a_version_flows_and_is_restored_without_any_store() {
    let nodes = Nodes::new(4);
    let (from, out, to) = (nodes.file("in.{rank}"), nodes.file("out.{rank}"), nodes.file("pfs"));
    let same = |round| (0..8).all(|rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == bytes(rank, round));
    for round in 0..3 {
        (0..8).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), bytes(rank, round)).unwrap());
        let done = nodes.terrace_dump(8, &["dump", "state", &from, "--flow-to", &to, "--flow-keep", "2", "--json"]);
        let done = flowed(&done);
        assert_eq!((&done["version"], &done["dropped"]), (&json!(round), &json!(u8::from(round == 2))));
        assert!(done["sent"].as_u64().unwrap() > 0);
    }
    let again = flowed(&nodes.terrace_dump(4, &["dump", "flow", "state", "--to", &to, "--json"]));
    assert_eq!((&again["version"], &again["sent"]), (&json!(2), &json!(0)));
    (0..4).for_each(|node| nodes.lose(node));
    (0..4).for_each(|node| nodes.make(node));
    for (ranks, version, round) in [(8, "2", 2), (3, "2", 2), (5, "1", 1)] {
        let words = said(&nodes.terrace_dump(ranks, &["restore", "state", &out, "--from", &to, "--version", version]));
        assert_eq!(words, format!("state version {version}: 8 files restored from {to}\n"));
        assert!(same(round));
    }
    let none = nodes.terrace_dump(8, &["restore", "state", &out]);
    assert!(!none.status.success(), "nothing is left in the stores");
    // The place was not named if it was misspelled or not mounted.
    let typo = nodes.file("typo");
    for (name, from, words) in [
        ("state", &typo, "typo: No such file or directory (os error 2); name the place to which versions have flowed"),
        ("other", &to, "there is no dump \"other\", neither in the nodes' stores nor in "),
    ] {
        let refused = nodes.terrace_dump(8, &["restore", name, &out, "--from", from]);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && errors.contains(words), "{words}: {errors}");
    }
    // Of the newest version, one pack is damaged: the one before is taken, and that is said.
    let newest = packs(&to).into_iter().max_by_key(|(_, (_, time))| *time).unwrap().0;
    let newest = Path::new(&to).join("dumps/state/packs").join(newest);
    let mut damaged = fs::read(&newest).unwrap();
    damaged[100] ^= 1;
    fs::write(&newest, damaged).unwrap();
    let taken = nodes.terrace_dump(8, &["restore", "state", &out, "--from", &to]);
    let errors = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert_eq!(said(&taken), format!("state version 1: 8 files restored from {to}\n"));
    assert!(same(1) && errors.contains("version 2 of dump \"state\" is not whole in"), "{errors}");
}

/// Kills a rank at each step of a flow, which ends the job. The next flow sends only what is missing.
#[test]
fn a_killed_flow_leaves_the_version_before_and_is_continued() {
    let nodes = Nodes::new(2);
    let (from, out, to) = (nodes.file("in.{rank}"), nodes.file("out.{rank}"), nodes.file("pfs"));
    let write =
        |round| (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), noisy(rank, round)).unwrap());
    let same = |round| (0..4).all(|rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == noisy(rank, round));
    let version_there = |empty: &Nodes| {
        let words = said(&empty.terrace_dump(4, &["restore", "state", &out, "--from", &to]));
        words.strip_prefix("state version ").unwrap().split(':').next().unwrap().parse::<u8>().unwrap()
    };
    let empty = Nodes::new(2);
    write(0);
    let small_packs = ("TERRACE_FLOW_PACK", "100000");
    // What a killed job has left of its claim is removed after this time.
    let short_watch = ("TERRACE_FLOW_WATCH_MS", "1000");
    said(&nodes.terrace_dump_with(4, &["dump", "state", &from, "--flow-to", &to], &[small_packs]));
    let points = ["flow:written@1", "flow:written@2", "flow:written@4", "flow:record", "flow:complete", "flow:dropped"];
    for (round, point) in (1..).zip(points) {
        write(round);
        said(&nodes.terrace_dump(4, &["dump", "state", &from]));
        let flow = ["dump", "flow", "state", "--to", &to, "--json", "--keep", "2"];
        let killed = nodes.terrace_dump_with(4, &flow, &[small_packs, ("TERRACE_FAIL_POINT", point)]);
        let code = killed.status.code();
        assert!(!killed.status.success() && code != Some(124), "{point}: {}", killed.status);
        let is_there = version_there(&empty);
        assert_eq!(
            is_there,
            if ["flow:complete", "flow:dropped"].contains(&point) { round } else { round - 1 },
            "{point}"
        );
        assert!(same(is_there), "{point}");
        let before = packs(&to);
        let done = nodes.terrace_dump_with(4, &flow, &[small_packs, short_watch]);
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(words.contains("was left by a job that has ended, process "), "{point}: {words}");
        let done = flowed(&done);
        let after = packs(&to);
        // None was written again, and as many were written as are new.
        assert!(before.iter().all(|(name, state)| after.get(name).is_none_or(|now| now == state)), "{point}");
        let new = after.keys().filter(|name| !before.contains_key(*name)).count() as u64;
        assert_eq!(done["sent"].as_u64(), Some(new), "{point}");
        assert_eq!(version_there(&empty), round, "{point}");
        assert!(same(round), "{point}");
    }
}

/// A job that was stopped, and went on, replaced records of the job that had taken over, whose version was reported as whole.
#[test]
fn a_job_that_was_stopped_harms_no_version_of_another() {
    let place = tempfile::tempdir().unwrap();
    stop_jobs(&place.path().join("pfs").display().to_string(), &[]);
}

/// A claim is a blob that is rewritten, and each blob is put whole or not at all.
#[test]
fn a_job_that_was_stopped_harms_no_version_in_a_bucket() {
    match Moto::start() {
        Ok(server) => stop_jobs(&format!("s3://{}/stopped", Moto::BUCKET_NAME), &server.option_flags()),
        Err(missing) => skip("stopped jobs and a bucket", &missing),
    }
}

fn stop_jobs(to: &str, options: &[String]) {
    let (stopped, other, empty) = (Nodes::new(2), Nodes::new(2), Nodes::new(2));
    let out = empty.file("out.{rank}");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let dump = |nodes: &Nodes, round, variables: &[(&str, &str)]| {
        (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), noisy(rank, round)).unwrap());
        let from = nodes.file("in.{rank}");
        let flags = [&["dump", "state", &from, "--flow-to", to, "--flow-keep", "1", "--json"], &options[..]].concat();
        nodes.terrace_dump_with(4, &flags, &[variables, &[("TERRACE_FLOW_PACK", "100000")]].concat())
    };
    for (version, point) in (0..).zip(["flow:written@2", "flow:record"]) {
        let stops = [("TERRACE_STOP_POINT", point), ("TERRACE_FLOW_RENEWAL_MS", "3000")];
        let refused = thread::scope(|scope| {
            let begun = scope.spawn(|| dump(&stopped, 10 + version, &stops));
            // The ranks that have sent nothing wait for others.
            let marked = stopped.file("");
            while find_stopped(&marked).is_empty() && !begun.is_finished() {
                thread::sleep(Duration::from_millis(50));
            }
            let done = flowed(&dump(&other, version, &[("TERRACE_FLOW_WATCH_MS", "5000")]));
            assert_eq!(done["version"], json!(version), "{point}");
            while !begun.is_finished() {
                find_stopped(&marked).into_iter().for_each(|process| kill_process(process, Signal::CONT).unwrap());
                thread::sleep(Duration::from_millis(50));
            }
            begun.join().unwrap()
        });
        assert!(!refused.status.success(), "{point}: {}", String::from_utf8_lossy(&refused.stdout));
        let restore = [&["restore", "state", &out, "--from", to], &options[..]].concat();
        let words = said(&empty.terrace_dump(4, &restore));
        assert_eq!(words, format!("state version {version}: 4 files restored from {to}\n"), "{point}");
        let same = |rank| fs::read(empty.file(&format!("out.{rank}"))).unwrap() == noisy(rank, version);
        assert!((0..4).all(same), "{point}");
    }
}

/// Kills a rank at steps of a flow to a bucket. The next flow sends only what is missing, and takes the claim over.
#[test]
fn a_killed_flow_to_a_bucket_is_continued() {
    let server = match Moto::start() {
        Ok(server) => server,
        Err(missing) => return skip("killed flows to a bucket", &missing),
    };
    let (to, options) = (format!("s3://{}/killed", Moto::BUCKET_NAME), server.option_flags());
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (nodes, empty) = (Nodes::new(2), Nodes::new(2));
    let (from, out) = (nodes.file("in.{rank}"), nodes.file("out.{rank}"));
    let flow = [&["dump", "flow", "state", "--to", &to, "--json", "--keep", "2"], &options[..]].concat();
    let small_packs = ("TERRACE_FLOW_PACK", "100000");
    let packs = || {
        let given: Vec<String> = options.iter().skip(1).step_by(2).map(|&option| option.to_owned()).collect();
        let service = ServiceAddress::parse(to.as_ref()).unwrap().service(&given).unwrap();
        Blobs::new(&service).unwrap().list("dumps/state/packs/").unwrap()
    };
    for (round, point) in (0..).zip(["", "flow:written@2", "flow:record", "flow:complete", "flow:dropped"]) {
        (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), noisy(rank, round)).unwrap());
        said(&nodes.terrace_dump(4, &["dump", "state", &from]));
        if !point.is_empty() {
            let killed = nodes.terrace_dump_with(4, &flow, &[small_packs, ("TERRACE_FAIL_POINT", point)]);
            assert!(!killed.status.success() && killed.status.code() != Some(124), "{point}: {}", killed.status);
        }
        let before = packs();
        let done = flowed(&nodes.terrace_dump_with(4, &flow, &[small_packs, ("TERRACE_FLOW_WATCH_MS", "1000")]));
        let new = packs().iter().filter(|pack| !before.contains(pack)).count() as u64;
        assert_eq!((&done["version"], done["sent"].as_u64()), (&json!(round), Some(new)), "{point}");
        let words = said(&empty.terrace_dump(4, &[&["restore", "state", &out, "--from", &to], &options[..]].concat()));
        assert_eq!(words, format!("state version {round}: 4 files restored from {to}\n"), "{point}");
        let same = |rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == noisy(rank, round);
        assert!((0..4).all(same), "{point}");
    }
}

/// Finds the stopped processes whose command line has this text.
fn find_stopped(text: &str) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_stopped = |number: &i32| {
        let read = |file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
        let state =
            String::from_utf8_lossy(&read("stat")).rsplit(')').next().unwrap_or_default().trim_start().starts_with('T');
        state && String::from_utf8_lossy(&read("cmdline")).contains(text)
    };
    numbers.filter(is_stopped).filter_map(Pid::from_raw).collect()
}

/// The bytes of a rank that has several packs.
fn noisy(rank: u32, round: u8) -> Vec<u8> {
    // Seeds that differ only in their last bit are one.
    let mut bytes = noise(600_000, 2 * u64::from(rank));
    bytes[..450_000].copy_from_slice(&noise(450_000, 1000 + 2 * u64::from(rank) + 20 * u64::from(round)));
    bytes
}

#[test]
fn checkpoints_flow_while_the_program_continues() {
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "overlap.c");
    let to = nodes.file("pfs");
    let run = |steps: &str| {
        nodes.mpirun_with(4, &[program.clone(), nodes.file("{node}/store"), steps.into()], &[], &[("FLOW_TO", &to)])
    };
    let words = said(&run("2"));
    assert!(words.starts_with("step 2 is version 1; ended: 1\nrefused: "), "{words}");
    for node in 0..2 {
        nodes.lose(node);
        nodes.make(node);
    }
    let ran = run("4");
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    let words = said(&ran);
    assert!(
        words.starts_with("goes on after step 2, from an archive: 1\nstep 4 is version 3; ended: 1\nrefused: "),
        "{words}"
    );
    assert!(errors.contains("version 1 of dump \"field\" is restored from"), "{errors}");
    let complete = fs::read_dir(Path::new(&to).join("dumps/field/complete")).unwrap().count();
    assert_eq!(complete, 2, "two versions stay");
    // A place that takes nothing is a failure that the wait tells of.
    fs::write(nodes.file("file"), "").unwrap();
    let failed = nodes.mpirun_with(
        4,
        &[program.clone(), nodes.file("{node}/store"), "5".into()],
        &[],
        &[("FLOW_TO", &nodes.file("file/x"))],
    );
    let errors = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && errors.contains("file/x"), "{errors}");
}

/// In C, the options of a service come from the environment.
#[test]
fn checkpoints_flow_to_a_bucket_while_the_program_continues() {
    let server = match Moto::start() {
        Ok(server) => server,
        Err(missing) => return skip("checkpoints in C that flow to a bucket", &missing),
    };
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "overlap.c");
    let [endpoint, ..] = server.options().map(|(_, value)| value);
    let to = format!("s3://{}/c", Moto::BUCKET_NAME);
    let run = |steps: &str| {
        let variables = [
            ("FLOW_TO", &to[..]),
            ("AWS_ENDPOINT_URL", &endpoint),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        said(&nodes.mpirun_with(4, &[program.clone(), nodes.file("{node}/store"), steps.into()], &[], &variables))
    };
    let words = run("2");
    assert!(words.starts_with("step 2 is version 1; ended: 1\nrefused: "), "{words}");
    for node in 0..2 {
        nodes.lose(node);
        nodes.make(node);
    }
    let words = run("4");
    assert!(words.starts_with("goes on after step 2, from an archive: 1\nstep 4 is version 3; ended: 1\n"), "{words}");
}
