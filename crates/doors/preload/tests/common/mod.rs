//! A store for a test, and programs that see it by the library.

// Each test uses a part of it.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_testkit::{Missing, skip};

/// Nothing is there on the machine.
pub const STORE_PREFIX: &str = "/terrace";

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        assert!(
            !PathBuf::from(STORE_PREFIX).exists(),
            "{STORE_PREFIX} exists on this machine, so the tests would not notice a missed call"
        );
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "[store]\nreplicas = {{ min = 1, max = 2, default = 2 }}\n\
             [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{0}/ram']\npersistent = false\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{0}/disk']\n",
            dir.path().display()
        );
        Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
        Place { dir }
    }

    /// Opens the store in this process, which sees what programs have placed.
    pub fn store(&self) -> Store {
        Store::open(&self.dir.path().join("store")).unwrap()
    }

    /// A program that sees the store, in a directory outside it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let library = std::env::current_exe().unwrap().with_file_name("libterrace_preload.so");
        assert!(library.exists(), "{} is not built", library.display());
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("LC_ALL", "C").env("HOME", self.dir.path()).env("LD_PRELOAD", library);
        command.env("TERRACE_PREFIX", STORE_PREFIX).env("TERRACE_STORE", self.dir.path().join("store"));
        command
    }

    /// Runs a script of bash, which must succeed. Returns what it printed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.command("bash").args(["-euo", "pipefail", "-c", script]).output().unwrap();
        succeeded(script, &output)
    }

    /// Runs a script of Python, which must succeed. Returns what it printed.
    pub fn python(&self, script: &str) -> String {
        let output = self.command(python_program()).args(["-c", script]).output().unwrap();
        succeeded(script, &output)
    }
}

/// The Python in which the project's own tests run, which has numpy and h5py, or the machine's.
pub fn python_program() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/python/bin/python");
    if own.exists() { own } else { "python3".into() }
}

fn succeeded(script: &str, output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\nfailed: {}\n{out}\n{err}", output.status);
    // Programs complain about errors that they do not pass on, and the library about those that no call returns.
    assert!(!err.contains("terrace: ") && !err.contains("panicked"), "{script}\n{err}");
    out.into_owned()
}

/// Whether all these programs, which `make test` installs, are on this machine. Skips the test if not.
pub fn have(test: &str, programs: &[&str]) -> bool {
    programs.iter().all(|program| have_one(test, "programs", program))
}

/// Whether a program is on this machine. Skips the test if not, for lack of this need.
pub fn have_one(test: &str, need: &'static str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !is_here {
        skip(test, &Missing::new(need, format!("{program} is not installed")));
    }
    is_here
}

/// A place with the command and the libraries as `make install PREFIX=...` puts them. None if the command is not built.
pub fn installed(test: &str) -> Option<(Place, PathBuf)> {
    let built = std::env::current_exe().unwrap();
    let built = built.parent().unwrap();
    if !built.join("../terrace").exists() {
        skip(test, &Missing::new("terrace", "the command is not built: `cargo build --bins`"));
        return None;
    }
    let place = Place::new();
    let (programs, libraries) = (place.dir.path().join("bin"), place.dir.path().join("lib"));
    let plugins = libraries.join("terrace/hdf5");
    fs::create_dir(&programs).unwrap();
    fs::create_dir_all(&plugins).unwrap();
    fs::copy(built.join("../terrace"), programs.join("terrace")).unwrap();
    fs::copy(built.join("libterrace_preload.so"), libraries.join("libterrace_preload.so")).unwrap();
    fs::copy(built.join("libterrace_hdf5.so"), plugins.join("libterrace_hdf5.so")).unwrap();
    Some((place, programs))
}

/// Runs `terrace run` with these arguments.
pub fn run(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new(place.dir.path().join("bin/terrace"));
    command.arg("run").args(arguments).env("TERRACE_STORE", place.dir.path().join("store"));
    command.current_dir(place.dir.path()).output().unwrap()
}
