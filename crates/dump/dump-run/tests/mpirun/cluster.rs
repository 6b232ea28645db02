//! Two nodes with their stores, and programs that mpirun runs on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_dump::gc;
use terrace_testkit::{Missing, skip};

pub const RANK_COUNT: usize = 4;

/// Two nodes with their stores, and the programs.
pub struct Cluster(TempDir);

impl Cluster {
    /// Returns `None` where the command line is not built.
    pub fn new() -> Option<Cluster> {
        let tests = std::env::current_exe().unwrap();
        let built = tests.ancestors().nth(2).unwrap();
        let cluster = Cluster(tempfile::tempdir().unwrap());
        for program in ["terrace", "terrace-dump"] {
            if fs::copy(built.join(program), cluster.path(program)).is_err() {
                skip("checkpoints of programs", &Missing::new("terrace", "`make build mpi` builds it"));
                return None;
            }
        }
        fs::copy(tests.with_file_name("libterrace_dump_run.so"), cluster.path("libterrace_dump_run.so")).unwrap();
        (0..2).for_each(|node| cluster.make_store(node));
        Some(cluster)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn make_store(&self, node: u32) {
        let at = self.path(&node.to_string());
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n", at.display());
        Store::init(&at.join("store"), &Config::parse(&text, "test").unwrap()).unwrap().close().unwrap();
    }

    /// Replaces a node by an empty one.
    pub fn lose(&self, node: u32) {
        fs::remove_dir_all(self.path(&node.to_string())).unwrap();
        self.make_store(node);
    }

    pub fn versions(&self, name: &str) -> Vec<u32> {
        let store = Store::open(&self.path("0/store")).unwrap();
        gc::versions(&store, name).unwrap()
    }

    /// Compiles an example.
    pub fn compile(&self, example: &str) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
        self.compile_file(&source, "program")
    }

    pub fn compile_file(&self, source: &Path, program: &str) -> String {
        let (compiler, flags) = match source.extension().unwrap().to_str() {
            Some("f90") => ("mpifort", "-O2 -Wall"),
            Some("cpp") => ("mpicxx", "-O2 -std=c++17 -DOMPI_SKIP_MPICXX -Wall -Wextra -Werror"),
            _ => ("mpicc", "-O2 -std=gnu99 -Wall -Wextra -Werror -pthread"),
        };
        let program = self.path(program).display().to_string();
        let mut compile = Command::new(compiler);
        // Fortran writes a file for each module there.
        compile.current_dir(self.0.path());
        said(&compile.args(flags.split(' ')).args(["-o", &program]).arg(source).output().unwrap());
        program
    }

    /// Runs a command on all ranks, two on each node. `each` is what a rank's shell does first.
    pub fn mpirun(&self, ranks: usize, each: &str, command: &[&str]) -> Output {
        let mut run = Command::new("timeout");
        run.args(["120", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string(), "sh", "-c"]);
        run.arg(format!("export TERRACE_NODE=$((OMPI_COMM_WORLD_RANK / 2)); {each} exec \"$@\""))
            .arg("sh")
            .args(command);
        run.env("TERRACE_STORE", self.path("{node}/store")).env("TERRACE_LOG", "terrace=info").output().unwrap()
    }

    /// Runs a program with `terrace dump run`, named `state`.
    pub fn dump_run(&self, flags: &[&str], program: &[&str]) -> Output {
        self.dump_run_on(RANK_COUNT, "", flags, program)
    }

    pub fn dump_run_on(&self, ranks: usize, each: &str, flags: &[&str], program: &[&str]) -> Output {
        let terrace = self.path("terrace").display().to_string();
        let usual = [&terrace, "dump", "run", "state", "--replicas", "2"];
        self.mpirun(ranks, each, &[&usual, flags, &["--"], program].concat())
    }

    /// Restores the newest checkpoint as core files.
    pub fn restore_cores(&self) -> Vec<Vec<u8>> {
        let (terrace, to) =
            (self.path("terrace").display().to_string(), self.path("core.{rank}").display().to_string());
        said(&self.mpirun(RANK_COUNT, "", &[&terrace, "restore", "state", &to]));
        (0..RANK_COUNT).map(|rank| fs::read(self.path(&format!("core.{rank}"))).unwrap()).collect()
    }
}

pub fn said(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        told(output),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The job was ended by the death of a rank, not by the time limit.
pub fn was_killed(output: &Output) -> bool {
    !output.status.success() && output.status.code() != Some(124)
}
