//! A store as a file system of Hadoop: Hadoop's own tests of what file systems promise, and ours of what only this one does.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;
use terrace_testkit::{Missing, skip};

use super::{built, here, jars, java, program, store, succeed};

/// The class path of the programs, after the jars were made.
static HADOOP_PATH: LazyLock<Result<Vec<PathBuf>, Missing>> = LazyLock::new(build);

fn build() -> Result<Vec<PathBuf>, Missing> {
    let hadoop = jars("hadoop")?;
    let Some(folder) = java("the programs of Hadoop") else { return Err(Missing::new("java", "it is not there")) };
    succeed(Command::new(here("hadoop/package")).arg(folder).arg(hadoop.with_file_name("")));
    let ours = ["terrace.jar", "terrace-hadoop.jar"].map(|jar| folder.join(jar));
    let path: Vec<PathBuf> = ours.into_iter().chain([jars("java")?, hadoop]).collect();
    let programs = std::fs::read_dir(here("tests/hadoop")).unwrap().map(|entry| entry.unwrap().path());
    let mut compiler = Command::new("javac");
    // Hadoop's jars name others that are not there, and classes without their annotations.
    compiler.args(["--release", "11", "-Xlint:all,-path,-classfile,-processing", "-Werror", "-cp"]);
    compiler.arg(std::env::join_paths(&path).unwrap()).arg("-d").arg(folder.join("hadoop-programs")).args(programs);
    succeed(&mut compiler);
    Ok([vec![folder.join("hadoop-programs")], path].concat())
}

/// Returns the class path of the programs. Skips the test if the machine has no Java.
pub fn path(test: &str) -> Option<&'static [PathBuf]> {
    HADOOP_PATH.as_deref().inspect_err(|missing| skip(test, missing)).ok()
}

/// Runs all tests of a class, those of its nested classes included, on a new store. Returns what JUnit says.
fn run_tests(test: &str, class: &str) -> Option<String> {
    let path = path(test)?;
    let dir = TempDir::new().unwrap();
    let at = store(dir.path(), &dir.path().join("disk"));
    let mut command = program(path, "org.junit.platform.console.ConsoleLauncher");
    command.args(["execute", "--disable-banner", "--disable-ansi-colors", "--details=tree", "--fail-if-no-tests"]);
    command.args(["--include-classname", &format!("{class}.*"), "--scan-class-path"]).arg(&path[0]);
    command.env("TERRACE_STORE", at).env("TERRACE_PROGRAM", built("../terrace")).current_dir(dir.path());
    // Elsewhere, JUnit draws its tree with other characters.
    command.env("LC_ALL", "C.UTF-8");
    Some(succeed(&mut command))
}

#[test]
fn hadoops_own_tests_of_file_systems_pass() {
    let Some(said) = run_tests("Hadoop's own tests of file systems pass", "Contract") else { return };
    assert!(said.contains(" 0 tests aborted "), "{said}");
    assert!(!said.contains("WARNING in native method"), "{said}");
}

#[test]
fn hadoop_sees_what_others_store_and_they_see_what_it_does() {
    let Some(said) = run_tests("Hadoop sees what others store", "HadoopTest") else { return };
    assert!(said.contains(" 0 tests skipped ") && said.contains(" 0 tests aborted "), "{said}");
}

#[test]
#[ignore = "`make soak` installs Spark"]
fn spark_writes_and_reads_tables() {
    let Some(path) = path("Spark writes and reads tables") else { return };
    let dir = TempDir::new().unwrap();
    let at = store(dir.path(), &dir.path().join("disk"));
    let mut command = Command::new(here("../../../target/servers/spark/bin/python"));
    command.arg(here("tests/spark/parquet.py")).arg(std::env::join_paths(&path[1..3]).unwrap());
    succeed(command.env("TERRACE_STORE", at).current_dir(dir.path()));
}
