//! Jobs of one node, with the recipes of the guide to jobs.

use std::fs;

use terrace_testkit::wait_until;

use crate::machine::{Slurm, USER_NAME, recipe};

/// Jobs that are to be ended from outside wait for this file, which nobody makes.
const GO_FILE: &str = "go";

/// Reads the input from the store, and puts what it made there.
const PUT_PROGRAM: &str = "terrace cat input/steps > made; terrace put made out/; touch has-put\n";

fn wait_program() -> String {
    format!("{PUT_PROGRAM}while [ ! -e {GO_FILE} ]; do sleep 0.1; done\n")
}

#[test]
fn results_are_safe_in_whatever_way_a_job_ends() {
    let Some(slurm) = Slurm::start() else { return };
    let (script, waits) = (recipe("jobs.md", "job.sh"), wait_program());
    // All begin at once: the one that reaches its limit takes a minute.
    let late = slurm.submit("late", &script, &["--time=1"], &waits);
    let well = slurm.submit("well", &script, &[], PUT_PROGRAM);
    let fails = slurm.submit("fails", &script, &[], &format!("{PUT_PROGRAM}exit 7\n"));
    let cancelled = slurm.submit("cancelled", &script, &[], &waits);
    let again = "if [ $SLURM_RESTART_COUNT ]; then terrace get out/made before; terrace put before second/; exit; fi\n";
    let requeued = slurm.submit("requeued", &script, &[], &format!("{again}{waits}"));
    fs::create_dir(slurm.path("lacks")).unwrap();
    fs::write(slurm.path("lacks/stage.list"), "input\nnothing\n").unwrap();
    let lacks = slurm.submit("lacks", &script, &[], PUT_PROGRAM);
    let buffered = slurm.submit("buffered", &recipe("jobs.md", "buffered.sh"), &[], PUT_PROGRAM);
    let own = slurm.submit("own", &recipe("jobs.md", "own.sh"), &[], &waits);

    own.wait_for_program();
    slurm.ask("scancel", &["--signal=TERM", "--batch", &own.id]);
    own.wait_for_state("COMPLETED");
    assert_eq!(own.result("out/made"), "own\n");
    assert!(!slurm.path("local").join(USER_NAME).join(&own.id).exists());
    cancelled.wait_for_program();
    slurm.ask("scancel", &[&cancelled.id]);
    requeued.wait_for_program();
    slurm.ask("scontrol", &["requeue", &requeued.id]);
    for (job, state) in [
        (&well, "COMPLETED"),
        (&fails, "FAILED"),
        (&cancelled, "CANCELLED"),
        (&late, "TIMEOUT"),
        (&requeued, "COMPLETED"),
    ] {
        job.wait_for_state(state);
        job.wait_for_end();
        let name = job.folder.file_name().unwrap().to_str().unwrap();
        assert_eq!(job.result("out/made"), format!("{name}\n"));
        let report = job.report();
        assert!(report["safe"] == true, "{report}");
    }
    assert_eq!(requeued.result("second/before"), "requeued\n", "the second run had what the first one made");
    lacks.wait_for_state("FAILED");
    lacks.wait_for_end();
    assert!(lacks.printed().contains("lacks/nothing") && !lacks.folder.join("has-put").exists(), "{}", lacks.printed());
    buffered.wait_for_state("COMPLETED");
    assert_eq!(buffered.result("out/made"), "buffered\n");
    wait_until("the buffer is removed", || !slurm.path("local/terrace/buffers").join(&buffered.id).exists());
    wait_until("no job has drained the node", || slurm.is_idle());
}

#[test]
fn a_node_keeps_results_that_have_no_place() {
    let Some(slurm) = Slurm::start() else { return };
    let no_place = recipe("jobs.md", "buffered.sh").replace("/pfs/me/results", "/proc/none");
    let buffered = slurm.submit("buffered", &no_place, &[], PUT_PROGRAM);
    buffered.wait_for_state("STAGE_OUT");
    wait_until("the reason is shown", || buffered.shown("Reason").contains("/proc/none"));
    let buffer = slurm.path("local/terrace/buffers").join(&buffered.id);
    assert!(buffer.join("data/store").exists());
    slurm.ask("scancel", &["--hurry", &buffered.id]);
    wait_until("the buffer is given up", || !buffer.exists());

    fs::create_dir(slurm.path("full")).unwrap();
    fs::write(slurm.path("full/results"), "this is no folder").unwrap();
    let full = slurm.submit("full", &recipe("jobs.md", "job.sh"), &[], PUT_PROGRAM);
    wait_until("the node is drained", || slurm.ask("sinfo", &["-h", "-o", "%T"]).contains("drain"));
    assert!(full.local().join("data/store").exists());
    // As the guide says: the end once more, then the node is used again.
    fs::remove_file(full.folder.join("results")).unwrap();
    let mut end = slurm.command("runuser");
    end.args(["-u", USER_NAME, "--", "terrace", "job", "end", "--to"]).arg(full.folder.join("results"));
    let end = end.env("TERRACE_STORE", full.local().join("data/store")).current_dir("/").output().unwrap();
    assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
    assert_eq!(full.result("out/made"), "full\n");
}
