//! The headers, and real MPI ranks of `terrace-dump` and of programs in C, C++, Fortran and Python.

#![allow(clippy::unwrap_used, clippy::panic)]

mod flow;
mod nodes;
mod refusals;
mod room;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use terrace::Store;
use terrace_dump::gc;
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, skip};

use nodes::{Nodes, bytes, compile, here, said};

#[test]
fn the_header_says_what_the_library_has() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let sources = ["failure", "once", "door", "restart", "background"].map(|name| here(&format!("src/{name}.rs")));
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

/// A second close ended the program, and zero replicas failed at the checkpoint only.
#[test]
fn closed_checkpoints_and_invalid_options_are_refused() {
    let nodes = Nodes::new(1);
    let source = nodes.file("refused.c");
    fs::write(
        &source,
        "#include <mpi.h>\n#include <stdio.h>\n#include <terrace_dump.h>\n\
         int main(int count, char **arguments)\n{\n\
             terrace_checkpoints *c;\n    int zero, early, closed;\n    bool archived;\n\
             MPI_Init(&count, &arguments);\n\
             if (terrace_dump_open(MPI_COMM_WORLD, arguments[1], &c)) return 1;\n\
             zero = terrace_dump_set_replicas(c, 0);\n\
             early = terrace_dump_is_archived(c, &archived);\n\
             terrace_dump_close(c);\n    terrace_dump_close(c);\n\
             closed = terrace_dump_set_replicas(c, 2);\n\
             printf(\"%d %d %d %s\\n\", zero, early, closed, terrace_dump_last_error());\n\
             MPI_Finalize();\n    return 0;\n}\n",
    )
    .unwrap();
    let program = compile(&nodes, &source);
    let words = said(&nodes.mpirun(2, &[program, nodes.file("{node}/store")]));
    assert_eq!(words, "2 2 2 the checkpoints are null, or closed\n".repeat(2));
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
    assert_eq!(run("3"), "goes on after step 2, from an archive: F\nstep 3 is version 2\n");
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
    assert_eq!(run(3, "4"), "goes on after step 3, from an archive: 0\nversion 3, ended: 1\ninvalid: 1\n");
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
        let step = words.strip_prefix("goes on after step ").and_then(|words| words.split(',').next()?.parse().ok());
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
    assert_eq!(run("3"), "goes on after step 2, from an archive: False\nstep 3 is version 2, ended: (True, 2)\n");
    for node in 0..2 {
        let store = Store::open(Path::new(&nodes.file(&format!("{node}/store")))).unwrap();
        assert_eq!(gc::versions(&store, "python").unwrap(), [1, 2], "the program keeps two");
    }
}
