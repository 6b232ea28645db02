//! Checkpoints flow to a place that outlives the nodes, and programs continue from there.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use terrace_testkit::{Moto, skip};

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

/// All nodes are lost twice. The program continues from the place, then from the nodes' stores, which are nearer, and again from the place.
fn lose_all_nodes(cluster: &Cluster, to: &str, options: &[String]) {
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "50"]));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let flags = [&["--each", "10", "--keep", "1", "--flow-to", to, "--flow-keep", "2"], &options[..]].concat();
    let restart = [&flags[..], &["--restart"]].concat();
    let run = |flags: &[&str], dies: u32| {
        let each = if dies > 0 { format!("export DIE_IN_STEP={dies};") } else { String::new() };
        cluster.dump_run_on(RANK_COUNT, &each, flags, &[&program, "50"])
    };
    let begun = run(&restart, 25);
    assert!(was_killed(&begun) && told(&begun).contains("the program begins: there is no dump"), "{}", told(&begun));
    assert!(told(&begun).contains("state version 1: "), "{}", told(&begun));
    (0..2).for_each(|node| cluster.lose(node));

    let again = run(&restart, 35);
    let words = format!("state continues from version 1 from {to}, at call 20");
    assert!(was_killed(&again) && told(&again).contains(&words), "{words}: {}", told(&again));
    assert_eq!(cluster.versions("state"), [2], "the versions of new stores follow those that are there");

    let near = run(&restart, 45);
    assert!(was_killed(&near) && told(&near).contains("continues from version 2, at call 30"), "{}", told(&near));
    (0..2).for_each(|node| cluster.lose(node));

    // Without --flow-to, the next version follows the one from which the program continues, too.
    let from = [&["--each", "10", "--restart", "--from", to], &options[..]].concat();
    let restarted = run(&from, 0);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    let words = format!("state continues from version 3 from {to}, at call 40");
    assert!(told(&restarted).contains(&words), "{words}: {}", told(&restarted));
    assert_eq!(cluster.versions("state"), [4]);
}

#[test]
fn a_program_continues_from_a_directory_if_all_nodes_are_lost() {
    let Some(cluster) = Cluster::new() else { return };
    let to = cluster.path("pfs");
    fs::create_dir(&to).unwrap();
    lose_all_nodes(&cluster, to.to_str().unwrap(), &[]);
    let mut versions: Vec<_> = fs::read_dir(to.join("dumps/state/complete")).unwrap().map(Result::unwrap).collect();
    versions.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = versions.iter().map(|version| version.file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["0000000002", "0000000003"], "two versions stay");
}

#[test]
fn a_program_continues_from_a_bucket_if_all_nodes_are_lost() {
    let Some(cluster) = Cluster::new() else { return };
    match Moto::start() {
        Ok(server) => lose_all_nodes(&cluster, &format!("s3://{}/runs", Moto::BUCKET_NAME), &server.option_flags()),
        Err(missing) => skip("checkpoints in a bucket", &missing),
    }
}

/// A rank dies at steps of the flow of the second checkpoint, which is whole in the nodes' stores.
#[test]
fn a_kill_within_a_flow_leaves_the_checkpoint() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "20"]));
    let to = cluster.path("pfs").display().to_string();
    let flags = ["--each", "10", "--flow-to", &to];
    for (round, point) in ["flow:record", "flow:complete"].into_iter().enumerate() {
        // Nothing that was dumped before.
        (0..2).for_each(|node| cluster.lose(node));
        let _ = fs::remove_dir_all(&to);
        // The fourth record is that of the last rank of the first flow; each rank passes the point once in a flow.
        let each = format!("export TERRACE_FAIL_POINT={point}@2;");
        let killed = cluster.dump_run_on(RANK_COUNT, &each, &flags, &[&program, "20"]);
        assert!(was_killed(&killed), "{point}: {}", told(&killed));
        assert_eq!(cluster.versions("state"), [0, 1], "{point}");
        let is_there = |version: u32| cluster.path(&format!("pfs/dumps/state/complete/{version:010}")).exists();
        assert_eq!((is_there(0), is_there(1)), (true, round == 1), "{point}");
        (0..2).for_each(|node| cluster.lose(node));
        let each = "export TERRACE_FLOW_WATCH_MS=1000;";
        let restarted =
            cluster.dump_run_on(RANK_COUNT, each, &[&flags[..], &["--restart"]].concat(), &[&program, "20"]);
        assert_eq!(said(&restarted), expected, "{point}: {}", told(&restarted));
        let words = format!("state continues from version {round} from {to}, at call {}", 10 * (round + 1));
        assert!(told(&restarted).contains(&words), "{words}: {}", told(&restarted));
    }
}

#[test]
fn a_flow_that_fails_is_told_and_the_program_continues() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "10"]));
    let (to, claim) = (cluster.path("pfs"), cluster.path("pfs/dumps/state/claims/0123"));
    fs::create_dir_all(claim.parent().unwrap()).unwrap();
    let (work, end) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        for renewal in 0.. {
            fs::write(&claim, format!("process 1 on elsewhere, renewal {renewal}")).unwrap();
            if end.recv_timeout(Duration::from_millis(300)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    let run = cluster.dump_run(&["--each", "10", "--flow-to", to.to_str().unwrap()], &[&program, "10"]);
    drop(work);
    other.join().unwrap();
    assert_eq!(said(&run), expected);
    let words = "version 0 of \"state\" is in the nodes' stores, and has not flowed: ";
    assert_eq!(told(&run).matches(words).count(), RANK_COUNT, "{}", told(&run));
    assert!(told(&run).contains("another job, process 1 on elsewhere"), "{}", told(&run));
    assert_eq!(cluster.versions("state"), [0]);
}

/// Otherwise the user would learn it at the first checkpoint, or when a restart is needed.
#[test]
fn a_place_that_cannot_be_used_ends_the_program_at_its_first_call() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    fs::write(cluster.path("file"), "").unwrap();
    fs::create_dir(cluster.path("there")).unwrap();
    let [below, typo, to, there] =
        ["file/pfs", "typo", "pfs", "there"].map(|name| cluster.path(name).display().to_string());
    for (flags, place) in [
        (&["--flow-to", &below][..], &below),
        (&["--restart", "--from", &below], &below),
        // The program began again, and said nothing of the place, which the user had misspelled or not mounted.
        (&["--restart", "--from", &typo], &typo),
        (&["--restart", "--from", &typo, "--flow-to", &to], &typo),
        // It began again, too, and filled the disk below the mount: only places of --from were looked at.
        (&["--restart", "--flow-to", &typo], &typo),
        (&["--restart", "--from", &there, "--flow-to", &typo], &typo),
    ] {
        let ended = cluster.dump_run(&[&["--each", "10"], flags].concat(), &[&program, "10"]);
        assert!(was_killed(&ended) && told(&ended).contains(place), "{}", told(&ended));
        assert!(cluster.versions("state").is_empty());
    }
    assert!(!cluster.path("typo").exists());
    // The place of --flow-to is made by the first flow of a job that does not restart. A chain of jobs needs it to be there.
    let flowed = cluster.dump_run(&["--each", "10", "--flow-to", &to], &[&program, "10"]);
    assert!(flowed.status.success() && cluster.path("pfs/dumps/state").is_dir(), "{}", told(&flowed));
    (0..2).for_each(|node| cluster.lose(node));
    fs::remove_dir_all(&to).unwrap();
    let missing = cluster.dump_run(&["--each", "10", "--restart", "--flow-to", &to], &[&program, "10"]);
    assert!(
        was_killed(&missing) && told(&missing).contains("make the directory once by `mkdir`"),
        "{}",
        told(&missing)
    );
    assert!(!cluster.path("pfs").exists());
    fs::create_dir(&to).unwrap();
    let begun = cluster.dump_run(&["--each", "10", "--restart", "--flow-to", &to], &[&program, "10"]);
    let words = format!("the program begins: there is no dump \"state\", neither in the nodes' stores nor in {to}");
    assert!(begun.status.success() && told(&begun).contains(&words), "{}", told(&begun));
    for (flags, words) in [
        (&["--from", "/pfs"][..], "--restart"),
        (&["--flow-keep", "2"], "--flow-to"),
        (&["--option", "region=x"], "--flow-to"),
    ] {
        let refused = cluster.dump_run(flags, &[&program, "10"]);
        assert!(!refused.status.success() && told(&refused).contains(words), "{flags:?}: {}", told(&refused));
    }
}
