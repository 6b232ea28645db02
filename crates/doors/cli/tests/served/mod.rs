//! A folder with a store, for tests of commands that serve it.

#![allow(dead_code)] // Each test uses some of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Place {
        Place::with("", &["disk"])
    }

    /// A store with these lines of configuration, and a tier on a folder of each name.
    pub fn with(lines: &str, folders: &[&str]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let config = place.0.path().join("terrace.toml");
        let tier = |name: &&str| {
            let folder = place.0.path().join(name);
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n", folder.display())
        };
        let tiers: String = folders.iter().map(tier).collect();
        fs::write(&config, format!("{lines}{tiers}")).unwrap();
        assert!(place.terrace().arg("init").arg("--config").arg(config).output().unwrap().status.success());
        place
    }

    pub fn terrace(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.env("TERRACE_STORE", self.0.path().join("store")).current_dir(self.0.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.terrace().args(arguments).output().unwrap()
    }

    /// Starts a server, and returns it with the first line that it prints.
    pub fn start(&self, arguments: &[&str]) -> (Child, String) {
        let mut child = self.terrace().arg("serve").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line)
    }
}
