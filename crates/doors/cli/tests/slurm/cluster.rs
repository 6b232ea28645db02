//! Jobs of two nodes, each with a disk of its own, with the script of the guide to clusters.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use terrace_testkit::{Missing, skip, wait_until};

use crate::machine::{Job, Slurm, recipe};

const HOST_ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
/// The line of the guide's script in which a job's programs run.
const PROGRAM_LINE: &str = "srun --overlap --ntasks-per-node=1 terrace get input/ /local/copy/ &";

/// Puts a file, and waits for a file that nobody makes.
const PUT_PROGRAM: &str =
    "echo $1 > $1; terrace put $1 out/; touch $1.has-put; while [ ! -e go ]; do sleep 0.1; done\n";

/// A file on each host's disk.
fn on_disks(slurm: &Slurm, name: &str) -> Vec<String> {
    HOST_ADDRESSES
        .map(|host| fs::read_to_string(slurm.path(&format!("disk.{host}")).join(name)).unwrap_or_default())
        .to_vec()
}

fn wait_for_put(job: &Job<'_>, name: &str) {
    let has_put = job.folder.join(format!("{name}.has-put"));
    wait_until(&format!("{} is there", has_put.display()), || has_put.exists());
}

#[test]
fn a_store_over_two_nodes_outlives_its_jobs() {
    let etcd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/etcd/etcd");
    if !etcd.is_file() {
        skip("a store over two nodes of Slurm", &Missing::new("etcd", "`make etcd` builds it"));
        return;
    }
    let Some(slurm) = Slurm::start_on(&HOST_ADDRESSES) else { return };
    slurm.add_program(&etcd);
    let script = recipe("cluster.md", "job.sh");
    let runs = |programs: &str| {
        assert!(script.contains(PROGRAM_LINE), "the guide's script has another line");
        script.replace(PROGRAM_LINE, programs)
    };
    // As the guide has it: both nodes read what one has put.
    let job = slurm.submit("life", &script, &[], "");
    job.wait_for_state("COMPLETED");
    assert_eq!(on_disks(&slurm, "copy/steps"), ["life\n"; 2], "{}", job.printed());
    let ended: Value = serde_json::from_slice(&fs::read(job.folder.join("end.json")).unwrap()).unwrap();
    assert_eq!(ended["unsafe"], json!([]), "{ended}");
    wait_until("the nodes are free", || slurm.is_idle());

    // The next job goes on. Slurm signals its script before its time is over.
    let job = slurm.submit("life", &runs("./program signalled &"), &[], PUT_PROGRAM);
    wait_for_put(&job, "signalled");
    slurm.ask("scancel", &["--signal=TERM", "--batch", &job.id]);
    job.wait_for_state("COMPLETED");
    assert!(job.printed().contains("all objects are saved"), "{}", job.printed());
    wait_until("the nodes are free", || slurm.is_idle());

    let job = slurm.submit("life", &runs("./program cancelled &"), &[], PUT_PROGRAM);
    wait_for_put(&job, "cancelled");
    slurm.ask("scancel", &[&job.id]);
    job.wait_for_state("CANCELLED");
    wait_until("the nodes are free", || slurm.is_idle());
    assert!(job.printed().contains("all objects are saved"), "{}", job.printed());

    let reads = "srun --overlap --ntasks-per-node=1 terrace get out/ /local/out/ &";
    let job = slurm.submit("life", &runs(reads), &[], "");
    job.wait_for_state("COMPLETED");
    for name in ["signalled", "cancelled"] {
        assert_eq!(on_disks(&slurm, &format!("out/{name}")), [format!("{name}\n"), format!("{name}\n")]);
    }
}
