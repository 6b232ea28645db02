//! HPCCG, a mini-application of Mantevo that solves a linear system by conjugate gradients, built as it is.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::{Missing, skip};

use crate::cluster::{Cluster, RANK_COUNT, said, told, was_killed};
use crate::sizes_of;

/// Each rank has a cube of cells, and the cubes are a tower.
const CUBE_SIDE: usize = 16;
const CELL_COUNT: usize = CUBE_SIDE * CUBE_SIDE * CUBE_SIDE;

/// Returns the program. None, with a counted skip, if it is not there.
fn find_program() -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/hpccg");
    if folder.join("installed").exists() {
        return Some(folder.join("test_HPCCG").display().to_string());
    }
    let missing = Missing::new("hpccg", format!("there is no {}; `make soak` fetches it", folder.display()));
    skip("checkpoints of HPCCG", &missing);
    None
}

/// Returns the lines that do not depend on the time.
fn residuals(words: &str) -> Vec<&str> {
    words.lines().filter(|line| line.contains("esidual")).collect()
}

/// Returns the processes in a folder that have stopped.
fn find_stopped(folder: &Path) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_stopped = |number: &i32| {
        let process = Path::new("/proc").join(number.to_string());
        let state = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let state = state.rsplit(')').next().unwrap_or_default().trim_start();
        state.starts_with('T') && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
    };
    numbers.filter(is_stopped).filter_map(Pid::from_raw).collect()
}

/// Returns the values of a rank's matrix: for each cell in turn, 27 for itself and -1 for each other cell that touches it.
fn matrix(rank: usize) -> Vec<f64> {
    let near = |at: usize, end: usize| at.saturating_sub(1)..(at + 2).min(end);
    let cells = |layers: std::ops::Range<usize>, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        let rows = layers.flat_map(move |layer| rows.clone().map(move |row| (layer, row)));
        rows.flat_map(move |(layer, row)| columns.clone().map(move |column| (layer, row, column)))
    };
    let own = cells(rank * CUBE_SIDE..(rank + 1) * CUBE_SIDE, 0..CUBE_SIDE, 0..CUBE_SIDE);
    let values = |cell: (usize, usize, usize)| {
        let touching = cells(near(cell.0, RANK_COUNT * CUBE_SIDE), near(cell.1, CUBE_SIDE), near(cell.2, CUBE_SIDE));
        touching.map(move |other| if other == cell { 27.0 } else { -1.0 })
    };
    own.flat_map(values).collect()
}

/// Checks what is known of a rank's memory: its matrix, and its part of the solution, in which each cell approaches 1.
fn check_memory(rank: usize, core: &[u8]) {
    let doubles: Vec<f64> = core.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let matrix = matrix(rank);
    assert!(doubles.windows(matrix.len()).any(|values| values == matrix), "the matrix of rank {rank}");
    let runs = doubles.split(|value| (value - 1.0).abs() > 0.1 || value.is_nan());
    let vectors: Vec<&[f64]> = runs.filter(|run| run.len() >= CELL_COUNT).collect();
    let exact = vectors.iter().filter(|run| run.iter().all(|value| *value == 1.0)).count();
    assert!(exact > 0 && exact < vectors.len(), "of {} vectors of rank {rank}, {exact} are exact", vectors.len());
}

/// A rank is killed in the middle of a checkpoint, and a node is lost.
#[test]
fn hpccg_continues_after_a_kill_with_the_same_residuals() {
    let (Some(cluster), Some(program)) = (Cluster::new(), find_program()) else { return };
    let side = CUBE_SIDE.to_string();
    let program = [&program[..], &side, &side, &side];
    let flags = ["--at", "MPI_Allreduce", "--each", "40"];
    // It writes its results into the working directory, too.
    let folder = cluster.path("work");
    fs::create_dir(&folder).unwrap();
    let each = format!("cd {};", folder.display());
    let usual = said(&cluster.mpirun(RANK_COUNT, &each, &program));
    let expected = residuals(&usual);
    assert_eq!(expected.len(), 12, "one at the beginning, one at the end, and ten between: {usual}");

    let whole = cluster.dump_run_on(RANK_COUNT, &each, &flags, &program);
    assert_eq!(residuals(&said(&whole)), expected, "{}", told(&whole));
    assert_eq!(cluster.versions("state"), [0, 1, 2, 3, 4, 5, 6]);
    // The ranks have most of their matrices in common, and each chunk is on two nodes.
    let [bytes, distinct, stored] = sizes_of(&told(&whole), 0);
    assert!(stored < distinct * 2 * 3 / 4, "{bytes} bytes, {distinct} distinct, {stored} stored");

    let stops = format!("{each} test $OMPI_COMM_WORLD_RANK = 2 && export TERRACE_STOP_POINT=put:committed@12;");
    let killed = thread::scope(|scope| {
        let begun = scope.spawn(|| cluster.dump_run_on(RANK_COUNT, &stops, &flags, &program));
        let mut stopped = Vec::new();
        while stopped.is_empty() && !begun.is_finished() {
            thread::sleep(Duration::from_millis(50));
            stopped = find_stopped(&folder);
        }
        stopped.into_iter().for_each(|process| kill_process(process, Signal::KILL).unwrap());
        begun.join().unwrap()
    });
    assert!(was_killed(&killed), "{}", told(&killed));
    let newest = *cluster.versions("state").last().unwrap();
    assert!((7..13).contains(&newest), "version {newest}: {}", told(&killed));
    cluster.restore_cores().iter().enumerate().for_each(|(rank, core)| check_memory(rank, core));

    cluster.lose(1);
    let restarted = cluster.dump_run_on(RANK_COUNT, &each, &[&flags[..], &["--restart"]].concat(), &program);
    let words = format!("state continues from version {newest}, at call {}", 40 * (newest - 6));
    assert!(told(&restarted).contains(&words), "{words}: {}", told(&restarted));
    let words = said(&restarted);
    let continued = residuals(&words);
    assert!(!continued.is_empty() && continued.len() < expected.len(), "{words}");
    assert!(expected.ends_with(&continued), "{words}\nexpected: {expected:?}");
}
