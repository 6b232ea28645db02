//! The header, and real MPI ranks of `terrace-dump`, of a program in C, and of one in Python.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_testkit::guide::Guide;
use terrace_testkit::{Missing, skip};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_header_says_what_the_library_has() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let sources = ["failure", "door"].map(|name| here(&format!("src/{name}.rs")));
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
        let mut run = Command::new("timeout");
        run.args(["120", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]);
        // The node of a rank follows from its number.
        let node = "export TERRACE_NODE=$((OMPI_COMM_WORLD_RANK / 2)); exec \"$@\"";
        run.args(["sh", "-c", node, "sh"]).args(program);
        run.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", here("python"));
        run.env("TERRACE_DUMP_LIBRARY", library()).output().unwrap()
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
        let program = [env!("CARGO_BIN_EXE_terrace-dump"), "--store", &self.file("{node}/store")];
        let all: Vec<String> = program.iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        self.mpirun(ranks, &all)
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
    let below = format!("{}/local/", folder.path().display());
    let replaced = [("/local/", below), ("mpirun", "mpirun --allow-run-as-root --oversubscribe".to_owned())];
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

#[test]
fn a_c_program_continues_after_a_rank_was_killed() {
    let nodes = Nodes::new(2);
    symlink(library(), nodes.file("libterrace_dump.so")).unwrap();
    let (program, store) = (nodes.file("program"), nodes.file("%s/store"));
    let mut compile = Command::new("mpicc");
    compile.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", &program]);
    compile.arg(here("examples/checkpoint.c")).arg("-I").arg(here("include")).arg("-L").arg(nodes.0.path());
    compile.args(["-lterrace_dump", &format!("-Wl,-rpath,{}", nodes.0.path().display())]);
    said(&compile.output().unwrap());
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
fn a_python_program_continues_from_its_checkpoint() {
    let python = "/usr/bin/python3".to_owned();
    let there = Command::new(&python).args(["-c", "import mpi4py"]).output().is_ok_and(|tried| tried.status.success());
    if !there {
        eprintln!("skipped: mpi4py is not installed for {python} (`make mpi`)");
        return;
    }
    let nodes = Nodes::new(2);
    let program = here("examples/checkpoint.py").display().to_string();
    let run =
        |steps: &str| said(&nodes.mpirun(4, &[python.clone(), program.clone(), nodes.file("%s/store"), steps.into()]));
    assert_eq!(run("2"), "begins\nstep 2 is version 1\n");
    assert_eq!(run("3"), "goes on after step 2\nstep 3 is version 2\n");
    // A masked array was dumped without its mask and without an error. The check needs only the attribute that
    // distinguishes one.
    let masked = "import sys\nfrom mpi4py import MPI\nfrom terrace_dump import Checkpoints\n\
        class Masked(bytearray):\n    mask = filled = None\n\
        with Checkpoints(MPI.COMM_WORLD, sys.argv[1] % (MPI.COMM_WORLD.rank // 2)) as checkpoints:\n    \
        try:\n        checkpoints.protect(0, Masked(9))\n    except TypeError as error:\n        print(error)\n";
    let refused = said(&nodes.mpirun(4, &[python.clone(), "-c".into(), masked.into(), nodes.file("%s/store")]));
    assert_eq!(refused.matches("protect its .data and its .mask").count(), 4, "{refused}");
}
