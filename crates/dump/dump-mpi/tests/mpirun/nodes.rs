//! Nodes with their stores, and programs that mpirun runs on them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use terrace::{Config, Store};

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Stores of nodes.
pub struct Nodes(pub TempDir);

impl Nodes {
    pub fn new(count: u32) -> Nodes {
        let nodes = Nodes(tempfile::tempdir().unwrap());
        (0..count).for_each(|node| nodes.make(node));
        nodes
    }

    pub fn make(&self, node: u32) {
        let at = self.0.path().join(node.to_string());
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n", at.display());
        Store::init(&at.join("store"), &Config::parse(&text, "test").unwrap()).unwrap().close().unwrap();
    }

    pub fn lose(&self, node: u32) {
        fs::remove_dir_all(self.0.path().join(node.to_string())).unwrap();
    }

    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Runs a program on this many ranks, two on each node.
    pub fn mpirun(&self, ranks: u32, program: &[String]) -> Output {
        self.mpirun_over(ranks, program, &[])
    }

    /// Runs a program with parameters of OpenMPI.
    pub fn mpirun_over(&self, ranks: u32, program: &[String], parameters: &[(&str, &str)]) -> Output {
        self.mpirun_with(ranks, program, parameters, &[])
    }

    /// Runs a program with parameters of OpenMPI, and variables of the environment.
    pub fn mpirun_with(
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
    pub fn odd_terrace_dump(&self, ranks: u32, usual: &[&str], odd: &[&str]) -> Output {
        let program = env!("CARGO_BIN_EXE_terrace-dump");
        let choose = format!("test $OMPI_COMM_WORLD_RANK = 2 && exec {program} {}; exec \"$@\"", odd.join(" "));
        let all: Vec<String> =
            ["sh", "-c", &choose, "sh", program].iter().chain(usual).map(|&text| text.to_owned()).collect();
        self.mpirun(ranks, &all)
    }

    pub fn terrace_dump(&self, ranks: u32, arguments: &[&str]) -> Output {
        self.terrace_dump_with(ranks, arguments, &[])
    }

    pub fn terrace_dump_with(&self, ranks: u32, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let program = [env!("CARGO_BIN_EXE_terrace-dump"), "--store", &self.file("{node}/store")];
        let all: Vec<String> = program.iter().chain(arguments).map(|text| (*text).to_owned()).collect();
        self.mpirun_with(ranks, &all, &[], variables)
    }
}

pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libterrace_dump_mpi.so")
}

pub fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

pub fn bytes(rank: u32, round: u8) -> Vec<u8> {
    let page = |i: u32| (0..4096u32).map(move |at| (i.wrapping_mul(97) ^ (at * (i + 3)) >> 3) as u8);
    let all = (0..50).chain(100 * (rank + 1)..100 * (rank + 1) + 20 * (rank + 1));
    all.flat_map(page).chain(std::iter::repeat_n(round, 1000)).collect()
}

/// Compiles an example. Returns the program.
pub fn compile(nodes: &Nodes, example: &str) -> String {
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
