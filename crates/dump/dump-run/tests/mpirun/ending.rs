//! Programs that end without a checkpoint, and those whose stack has no limit.

use std::process::Command;

use terrace_testkit::{Missing, skip};

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};

/// A program that never made the calls ended without a checkpoint and without a word, and began again at each restart. The tests gave each program
/// the call that it makes.
#[test]
fn a_program_that_is_never_dumped_says_so_at_its_end() {
    let Some(cluster) = Cluster::new() else { return };
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "10"]));
    let made = "no checkpoint of \"state\" was made";
    let here = ["--at", "terrace_checkpoint_here"];
    let rare = ["--each", "11"];
    for (flags, words) in [
        (&here[..], "made: the program made 0 calls of terrace_checkpoint_here with all ranks, and --each is 1; name"),
        (&rare, "made 10 calls of MPI_Barrier with all ranks, and --each is 11"),
        (&["--every", "1000"], "made 10 calls of MPI_Barrier with all ranks, and --every is 1000 s"),
    ] {
        let run = cluster.dump_run(flags, &[&program, "10"]);
        assert_eq!(said(&run), expected, "{}", told(&run));
        assert!(told(&run).contains(words) && told(&run).matches(made).count() == 1, "{words}: {}", told(&run));
        assert!(cluster.versions("state").is_empty());
    }
    let whole = cluster.dump_run(&["--each", "10"], &[&program, "10"]);
    assert!(!told(&whole).contains(made), "{}", told(&whole));
    let again = cluster.dump_run(&[&here[..], &["--restart"]].concat(), &[&program, "10"]);
    let words = "and it was not continued from one";
    assert!(said(&again) == expected && told(&again).contains(words), "{}", told(&again));
    let continued = cluster.dump_run(&[&rare[..], &["--restart"]].concat(), &[&program, "10"]);
    assert!(said(&continued) == expected && !told(&continued).contains(made), "{}", told(&continued));
    let fortran = cluster.compile("waves.f90");
    let run = cluster.dump_run(&here, &[&fortran, "5"]);
    assert!(told(&run).matches(made).count() == 1, "{}", told(&run));
}

/// The kernel then places libraries elsewhere, and the C library's blocks were taken for those of the program's heap: each program crashed.
#[test]
fn a_program_without_a_limit_of_its_stack_continues() {
    let Some(cluster) = Cluster::new() else { return };
    let unlimited = "ulimit -s unlimited;";
    if !Command::new("sh").args(["-c", unlimited]).status().unwrap().success() {
        return skip("stacks without a limit", &Missing::new("limits", "this user may not run `ulimit -s unlimited`"));
    }
    let program = cluster.compile("heat.c");
    let expected = said(&cluster.mpirun(RANK_COUNT, "", &[&program, "20"]));
    let each = format!("{unlimited} export DIE_IN_STEP=15;");
    let killed = cluster.dump_run_on(RANK_COUNT, &each, &["--each", "10"], &[&program, "20"]);
    assert!(was_killed(&killed) && cluster.versions("state") == [0], "{}", told(&killed));
    let flags = ["--each", "10", "--restart"];
    let moved = cluster.dump_run_on(RANK_COUNT, "ulimit -s 8192;", &flags, &[&program, "20"]);
    assert!(was_killed(&moved) && told(&moved).contains("use the same `ulimit -s`"), "{}", told(&moved));
    let restarted = cluster.dump_run_on(RANK_COUNT, unlimited, &flags, &[&program, "20"]);
    assert_eq!(said(&restarted), expected, "{}", told(&restarted));
    assert!(told(&restarted).contains("state continues from version 0, at call 10"), "{}", told(&restarted));
}
