//! The headers, and real MPI ranks of `terrace-dump` and of programs in C, C++, Fortran and Python.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_dump::gc;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, noise, skip};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_header_says_what_the_library_has() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let sources = ["failure", "once", "door", "background"].map(|name| here(&format!("src/{name}.rs")));
    let made = sources.iter().fold(cbindgen::Builder::new().with_config(config), |made, path| made.with_src(path));
    let mut header = Vec::new();
    made.generate().unwrap().write(&mut header);
    let path = here("include/terrace_dump.h");
    if std::env::var_os("TERRACE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let checked_in = fs::read(&path).unwrap_or_default();
    assert!(checked_in == header, "terrace_dump.h is old; run the tests with TERRACE_HEADER=write to write it again");
}

/// Stores of nodes.
struct Nodes(TempDir);

impl Nodes {
    fn new(count: u32) -> Nodes {
        let nodes = Nodes(tempfile::tempdir().unwrap());
        (0..count).for_each(|node| nodes.make(node));
        nodes
    }

    fn make(&self, node: u32) {
        let at = self.0.path().join(node.to_string());
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n", at.display());
        Store::init(&at.join("store"), &Config::parse(&text, "test").unwrap()).unwrap().close().unwrap();
    }

    fn lose(&self, node: u32) {
        fs::remove_dir_all(self.0.path().join(node.to_string())).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Runs a program on this many ranks, two on each node.
    fn mpirun(&self, ranks: u32, program: &[String]) -> Output {
        self.mpirun_over(ranks, program, &[])
    }

    /// Runs a program with parameters of OpenMPI.
    fn mpirun_over(&self, ranks: u32, program: &[String], parameters: &[(&str, &str)]) -> Output {
        self.mpirun_with(ranks, program, parameters, &[])
    }

    /// Runs a program with parameters of OpenMPI, and variables of the environment.
    fn mpirun_with(
        &self,
        ranks: u32,
        program: &[String],
        parameters: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Output {
        let mut run = Command::new("timeout");
        run.args(["120", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]);
        // The node of a rank follows from its number.
        let node = "export TERRACE_NODE=$((OMPI_COMM_WORLD_RANK / 2)); exec \"$@\"";
        for (name, value) in parameters {
            run.args(["--mca", name, value]);
        }
        run.args(["sh", "-c", node, "sh"]).args(program);
        run.envs(variables.iter().copied());
        run.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", here("python"));
        run.env("TERRACE_DUMP_LIBRARY", library()).env("TERRACE_STORE", self.file("{node}/store")).output().unwrap()
    }

    /// Runs `terrace-dump` with other arguments on the third rank.
    fn odd_terrace_dump(&self, ranks: u32, usual: &[&str], odd: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_terrace-dump");
        let choose = format!("test $OMPI_COMM_WORLD_RANK = 2 && exec {program} {}; exec \"$@\"", odd.join(" "));
        let all: Vec<String> =
            ["sh", "-c", &choose, "sh", program].iter().chain(usual).map(|&text| text.to_owned()).collect();
        self.mpirun(ranks, &all)
    }

    fn terrace_dump(&self, ranks: u32, arguments: &[&str]) -> Output {
        self.terrace_dump_with(ranks, arguments, &[])
    }

    fn terrace_dump_with(&self, ranks: u32, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let program = [env!("CARGO_BIN_EXE_terrace-dump"), "--store", &self.file("{node}/store")];
        let all: Vec<String> = program.iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        self.mpirun_with(ranks, &all, &[], variables)
    }
}

fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libterrace_dump_mpi.so")
}

fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

fn bytes(rank: u32, round: u8) -> Vec<u8> {
    let page = |i: u32| (0..4096u32).map(move |at| (i.wrapping_mul(97) ^ (at * (i + 3)) >> 3) as u8);
    let all = (0..50).chain(100 * (rank + 1)..100 * (rank + 1) + 20 * (rank + 1));
    all.flat_map(page).chain(std::iter::repeat_n(round, 1000)).collect()
}

#[test]
fn files_are_dumped_and_restored_with_lost_stores_and_other_ranks() {
    let nodes = Nodes::new(4);
    let write =
        |round| (0..8).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), bytes(rank, round)).unwrap());
    let (from, to) = (nodes.file("in.{rank}"), nodes.file("out.{rank}"));
    let same = |round| (0..8).all(|rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == bytes(rank, round));
    for round in 0..2 {
        write(round);
        // A small window causes many rounds.
        let words = said(&nodes.terrace_dump(8, &["dump", "state", &from, "--replicas", "3", "--window", "20000"]));
        assert!(words.starts_with(&format!("state version {round}: ")), "{words}");
    }
    nodes.lose(1);
    nodes.lose(2);
    nodes.make(1);
    nodes.make(2);
    assert_eq!(said(&nodes.terrace_dump(8, &["restore", "state", &to])), "state version 1: 8 files restored\n");
    assert!(same(1));
    assert_eq!(
        said(&nodes.terrace_dump(7, &["restore", "state", &to, "--version", "0"])),
        "state version 0: 8 files restored\n"
    );
    assert!(same(0));
    // One more than the replicas can replace.
    nodes.lose(0);
    nodes.make(0);
    let lost = nodes.terrace_dump(8, &["restore", "state", &to]);
    assert!(!lost.status.success());
    assert!(String::from_utf8_lossy(&lost.stderr).contains("cannot be restored from the stores that are here: rank "));
}

/// The guide listed dumps of another store than it had dumped to, and restored a version that it had not made.
#[test]
fn the_guide_to_dumps_works_as_it_says() {
    let programs = Path::new(env!("CARGO_BIN_EXE_terrace-dump")).parent().unwrap();
    if !programs.join("terrace").exists() {
        return skip("the guide to dumps", &Missing::new("terrace", "`make build` builds it"));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |rank: u32| folder.path().join(format!("out.{rank}"));
    (0..8).for_each(|rank| fs::write(file(rank), bytes(rank, 0)).unwrap());
    let below = |name: &str| folder.path().join(name).display().to_string();
    let replaced = [
        ("/local/", below("local/")),
        ("/pfs/", below("pfs/")),
        ("mpirun", "mpirun --allow-run-as-root --oversubscribe".to_owned()),
    ];
    Guide { name: "dump.md", folder: folder.path(), programs, replaced: &replaced, before: &|_| {} }.run();
    assert!((0..8).all(|rank| fs::read(file(rank)).unwrap() == bytes(rank, 0)));
}

/// Once, ranks with different arguments waited for each other forever, were ended by MPI, or made a dump that lacked
/// copies.
#[test]
fn ranks_with_different_requests_all_report_it() {
    let nodes = Nodes::new(2);
    (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), bytes(rank, 0)).unwrap());
    let (store, from) = (nodes.file("{node}/store"), nodes.file("in.{rank}"));
    let usual = ["--store", &store, "dump", "state", &from, "--replicas", "2"];
    let with = |more: &[&'static str]| [&usual[..], more].concat();
    for (odd, words) in [
        (
            ["--store", &store, "dump", "state", &from, "--replicas", "1"].to_vec(),
            "replicas is 2 on ranks 0-1, 3, 1 on rank 2",
        ),
        (with(&["--duplicates", "local"]), "duplicates is collective on ranks 0-1, 3, local on rank 2"),
        (with(&["--window", "20000"]), "window is 33554432 on ranks 0-1, 3, 20000 on rank 2"),
        (with(&["--version", "7"]), "version is the next on ranks 0-1, 3, 7 on rank 2"),
        (["--store", &store, "restore", "state", &from].to_vec(), "call is dump on ranks 0-1, 3, restore on rank 2"),
    ] {
        let told = nodes.odd_terrace_dump(4, &usual, &odd);
        let errors = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && errors.contains(words), "{words}: {}\n{errors}", told.status);
    }
    let few = nodes.terrace_dump(4, &["dump", "state", &from]);
    let errors = String::from_utf8_lossy(&few.stderr).into_owned();
    assert!(said(&few).contains(" of 4 ranks on 2 nodes each;"));
    assert!(errors.contains("3 replicas are asked for, and there are 2 nodes"), "{errors}");
    let to = nodes.file("out.{rank}");
    let usual = ["--store", &store, "restore", "state", &to];
    let told = nodes.odd_terrace_dump(4, &usual, &[&usual[..], &["--partial"]].concat());
    assert!(String::from_utf8_lossy(&told.stderr).contains("partial is false on ranks 0-1, 3, true on rank 2"));
    // An existing file is replaced as a whole, and no other files are left.
    said(&nodes.terrace_dump(4, &["restore", "state", &to]));
    assert!((0..4).all(|rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == bytes(rank, 0)));
    let left = fs::read_dir(nodes.0.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("terrace-part"));
    assert_eq!(left.count(), 0);
}

/// Compiles an example. Returns the program.
fn compile(nodes: &Nodes, example: &str) -> String {
    let (program, dir) = (nodes.file("program"), nodes.0.path().display());
    symlink(library(), nodes.file("libterrace_dump.so")).unwrap();
    let (compiler, flags) = match example.rsplit('.').next() {
        Some("f90") => ("mpifort", format!("-J{dir} -Wall -Werror {}", here("include/terrace_dumps.f90").display())),
        // OpenMPI's own classes for C++, which MPI no longer has, cause warnings.
        Some("cpp") => ("mpicxx", "-std=c++17 -DOMPI_SKIP_MPICXX -Wall -Wextra -Werror -pedantic".to_owned()),
        _ => ("mpicc", "-std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -pedantic".to_owned()),
    };
    let mut compile = Command::new(compiler);
    compile.args(flags.split(' ')).args(["-o", &program]).arg(here("examples").join(example));
    compile
        .arg("-I")
        .arg(here("include"))
        .arg(format!("-L{dir}"))
        .arg(format!("-Wl,-rpath,{dir}"))
        .arg("-lterrace_dump");
    said(&compile.output().unwrap());
    program
}

/// A second close ended the program, and zero replicas failed at the checkpoint only.
#[test]
fn closed_checkpoints_and_invalid_options_are_refused() {
    let nodes = Nodes::new(1);
    let source = nodes.file("refused.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <terrace_dump.h>\n\
         int main(int count, char **arguments)\n{\n\
             terrace_checkpoints *c;\n    int zero, closed;\n\
             MPI_Init(&count, &arguments);\n\
             if (terrace_dump_open(MPI_COMM_WORLD, arguments[1], &c)) return 1;\n\
             zero = terrace_dump_set_replicas(c, 0);\n\
             terrace_dump_close(c);\n    terrace_dump_close(c);\n\
             closed = terrace_dump_set_replicas(c, 2);\n\
             printf(\"%d %d %s\\n\", zero, closed, terrace_dump_last_error());\n\
             MPI_Finalize();\n    return 0;\n}\n",
    )
    .unwrap();
    let program = compile(&nodes, &source);
    let words = said(&nodes.mpirun(2, &[program, nodes.file("{node}/store")]));
    assert_eq!(words, "2 2 the checkpoints are null, or closed\n".repeat(2));
}

#[test]
fn a_c_program_continues_after_a_rank_was_killed() {
    let nodes = Nodes::new(2);
    let (program, store) = (compile(&nodes, "checkpoint.c"), nodes.file("{node}/store"));
    let run = |arguments: &[&str]| {
        let all: Vec<String> =
            [&[&program[..], &store], arguments].concat().iter().map(|&text| text.to_owned()).collect();
        nodes.mpirun(4, &all)
    };
    let killed = run(&["5", "3"]);
    let words = String::from_utf8_lossy(&killed.stdout).into_owned();
    assert!(
        !killed.status.success() && killed.status.code() != Some(124),
        "the job ended by itself: {}",
        killed.status
    );
    assert!(words.contains("begins: there is no dump \"field\"") && words.contains("step 2 is version 1"), "{words}");
    nodes.lose(1);
    nodes.make(1);
    let words = said(&run(&["5"]));
    assert!(words.starts_with("goes on after step 2\nstep 3 is version 2\n"), "{words}");
    assert!(words.ends_with("all is well; without region 1 it is refused\n"), "{words}");
}

#[test]
fn one_call_dumps_a_buffer_of_each_rank() {
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "output.c");
    assert_eq!(said(&nodes.mpirun(4, &[program])), "without a buffer it is refused\n");
    nodes.lose(0);
    nodes.make(0);
    let to = nodes.file("out.{rank}");
    assert_eq!(said(&nodes.terrace_dump(4, &["restore", "output", &to])), "output version 0: 4 files restored\n");
    for rank in 0..4 {
        assert_eq!(fs::read(nodes.file(&format!("out.{rank}"))).unwrap(), [b'a' + rank; 100_000]);
    }
}

#[test]
fn a_fortran_program_continues_from_its_checkpoint() {
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "checkpoint.f90");
    let run = |steps: &str| said(&nodes.mpirun(4, &[program.clone(), nodes.file("{node}/store"), steps.into()]));
    let begun = run("2");
    assert!(
        begun.starts_with("begins: there is no dump \"fortran\"") && begun.ends_with("step 2 is version 1\n"),
        "{begun}"
    );
    assert_eq!(run("3"), "goes on after step 2\nstep 3 is version 2\n");
}

/// OpenMPI 4 has no one-sided communication over TCP for programs with threads, and ended those that dumped.
#[test]
fn a_cpp_program_continues_while_it_is_dumped_over_tcp() {
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "overlap.cpp");
    let ethernet = [("btl", "self,tcp"), ("osc", "^sm,ucx")];
    let run = |ranks, steps: &str| {
        said(&nodes.mpirun_over(ranks, &[program.clone(), nodes.file("{node}/store"), steps.into()], &ethernet))
    };
    assert_eq!(run(4, "3"), "begins after step 0\nversion 2, ended: 1\ninvalid: 1\n");
    assert_eq!(run(3, "4"), "goes on after step 3\nversion 3, ended: 1\ninvalid: 1\n");
}

/// As in containers whose processes may not copy each other's memory: MPI makes no windows there, which ended the dump.
#[test]
fn ranks_dump_where_mpi_makes_no_windows() {
    let nodes = Nodes::new(2);
    (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), bytes(rank, 0)).unwrap());
    let run = |arguments: &[&str]| {
        let program = [env!("CARGO_BIN_EXE_terrace-dump"), "--store", &nodes.file("{node}/store")];
        let all: Vec<String> = program.iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        said(&nodes.mpirun_over(4, &all, &[("btl_vader_single_copy_mechanism", "none")]))
    };
    run(&["dump", "state", &nodes.file("in.{rank}"), "--replicas", "2"]);
    run(&["restore", "state", &nodes.file("out.{rank}")]);
    assert!((0..4).all(|rank| fs::read(nodes.file(&format!("out.{rank}"))).unwrap() == bytes(rank, 0)));
}

#[test]
fn cpp_and_fortran_have_every_function_of_the_header() {
    let read = |file: &str| fs::read_to_string(here(file)).unwrap();
    let names = |text: &str| -> BTreeSet<String> {
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with(['!', '/'])).collect();
        let before = code.split('(').map(|text| text.rsplit([' ', '*']).next().unwrap_or_default().to_owned());
        before.filter(|name| name.starts_with("terrace_dump")).collect()
    };
    let (header, module) = (names(&read("include/terrace_dump.h")), names(&read("include/terrace_dumps.f90")));
    let missing: Vec<_> = header.difference(&module).collect();
    assert!(header.len() > 9 && missing.is_empty(), "{missing:?}");
    let class = names(&read("include/terrace_dump.hpp"));
    let missing: Vec<_> = header.difference(&class).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Runs a program that is killed while a checkpoint is dumped: earlier or later in it.
#[test]
fn ranks_continue_while_they_are_dumped_and_may_be_killed() {
    let nodes = Nodes::new(2);
    let program = compile(&nodes, "overlap.c");
    let run = |arguments: &[String]| {
        nodes.mpirun(4, &[&[program.clone(), nodes.file("{node}/store")][..], arguments].concat())
    };
    let words = said(&run(&["2".into()]));
    let expected = "step 2 is version 1; ended: 1\nrefused: the ranks are asked for different things: dump is ";
    assert!(words.starts_with(expected), "{words}");
    for (round, microseconds) in (1..).zip([0, 30_000, 100_000, 400_000]) {
        let (before, dies) = (2 * round, 2 * round + 2);
        let killed = run(&[(dies + 1).to_string(), dies.to_string(), microseconds.to_string()]);
        assert!(!killed.status.success() && killed.status.code() != Some(124), "{}", killed.status);
        nodes.lose(round % 2);
        nodes.make(round % 2);
        let words = said(&run(&[dies.to_string()]));
        let step = words.strip_prefix("goes on after step ").and_then(|words| words.split('\n').next()?.parse().ok());
        // The checkpoint of the step before had ended when this one began.
        assert!(step.is_some_and(|step: u32| (before + 1..=dies).contains(&step)), "after {microseconds} us: {words}");
    }
}

/// Only as many ranks as made a checkpoint could restart from it.
#[test]
fn other_numbers_of_ranks_go_on_in_c_and_python() {
    let nodes = Nodes::new(3);
    let (program, store) = (compile(&nodes, "resize.c"), nodes.file("{node}/store"));
    let run = |ranks| said(&nodes.mpirun(ranks, &[program.clone(), store.clone()]));
    assert_eq!(run(4), "");
    assert_eq!(run(3), "3 ranks go on after step 1\n");
    nodes.lose(0);
    nodes.make(0);
    assert_eq!(run(6), "6 ranks go on after step 2\n");
    let Some(python) = python() else { return };
    let python = [python, here("examples/resize.py").display().to_string(), store.clone()];
    assert_eq!(said(&nodes.mpirun(5, &python)), "5 ranks go on after step 3\n");
    assert_eq!(run(6), "6 ranks go on after step 4\n");
}

/// The names of packs below a place that versions flow to, with what changes if one is written again.
fn packs(to: &str) -> BTreeMap<String, (u64, SystemTime)> {
    let entries = fs::read_dir(Path::new(to).join("dumps/state/packs")).into_iter().flatten().map(Result::unwrap);
    let written = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let state = |entry: fs::DirEntry| {
        let found = entry.metadata().unwrap();
        (entry.file_name().into_string().unwrap(), (found.ino(), found.modified().unwrap()))
    };
    written.map(state).collect()
}

fn flowed(output: &Output) -> Value {
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
    let (stopped, other, empty) = (Nodes::new(2), Nodes::new(2), Nodes::new(2));
    let (out, to) = (empty.file("out.{rank}"), empty.file("pfs"));
    let dump = |nodes: &Nodes, round, variables: &[(&str, &str)]| {
        (0..4).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), noisy(rank, round)).unwrap());
        let from = nodes.file("in.{rank}");
        let flags = ["dump", "state", &from, "--flow-to", &to, "--flow-keep", "1", "--json"];
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
        let words = said(&empty.terrace_dump(4, &["restore", "state", &out, "--from", &to]));
        assert_eq!(words, format!("state version {version}: 4 files restored from {to}\n"), "{point}");
        let same = |rank| fs::read(empty.file(&format!("out.{rank}"))).unwrap() == noisy(rank, version);
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
    assert!(words.starts_with("goes on after step 2\nstep 4 is version 3; ended: 1\nrefused: "), "{words}");
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

/// Returns the Python that has mpi4py.
fn python() -> Option<String> {
    let python = "/usr/bin/python3".to_owned();
    let tried = Command::new(&python).args(["-c", "import mpi4py"]).output();
    if tried.is_ok_and(|tried| tried.status.success()) {
        return Some(python);
    }
    skip("MPI programs in Python", &Missing::new("mpi", "mpi4py is not installed for /usr/bin/python3 (`make mpi`)"));
    None
}

#[test]
fn a_python_program_continues_from_its_checkpoint() {
    let Some(python) = python() else { return };
    let nodes = Nodes::new(2);
    let program = here("examples/checkpoint.py").display().to_string();
    let run = |steps: &str| {
        said(&nodes.mpirun(4, &[python.clone(), program.clone(), nodes.file("{node}/store"), steps.into()]))
    };
    assert_eq!(run("2"), "begins\nstep 2 is version 1, ended: (True, 1)\n");
    assert_eq!(run("3"), "goes on after step 2\nstep 3 is version 2, ended: (True, 2)\n");
    for node in 0..2 {
        let store = Store::open(Path::new(&nodes.file(&format!("{node}/store")))).unwrap();
        assert_eq!(gc::versions(&store, "python").unwrap(), [1, 2], "the program keeps two");
    }
    // A masked array was dumped without its mask and without an error. The check needs only the attribute that
    // distinguishes one.
    let masked = "import sys\nfrom mpi4py import MPI\nfrom terrace_dump import Checkpoints\n\
        class Masked(bytearray):\n    mask = filled = None\n\
        with Checkpoints(MPI.COMM_WORLD, sys.argv[1]) as checkpoints:\n    \
        try:\n        checkpoints.protect(0, Masked(9))\n    except TypeError as error:\n        print(error)\n";
    let refused = said(&nodes.mpirun(4, &[python.clone(), "-c".into(), masked.into(), nodes.file("{node}/store")]));
    assert_eq!(refused.matches("protect its .data and its .mask").count(), 4, "{refused}");
}
