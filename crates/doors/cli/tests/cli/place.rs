//! A folder with a store in it, and running the binary there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
pub use terrace_testkit::noise;

pub struct Place(TempDir);

/// The results of a run of the binary.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    /// A folder without a store.
    pub fn empty() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// A store with two replicas of everything, on a tier `ram` and a tier `disk`.
    pub fn new() -> Place {
        Place::with("", "")
    }

    /// The same, with more said about each tier.
    pub fn with(ram: &str, disk: &str) -> Place {
        let place = Place::empty();
        let at = place.0.path().display().to_string();
        let tier = |name: &str, rest: &str| {
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{at}/tiers/{name}']\n{rest}\n")
        };
        let ram = format!("persistent = false\n{ram}");
        let config = format!("[store]\nreplicas = {{ default = 2 }}\n{}{}", tier("ram", &ram), tier("disk", disk));
        fs::create_dir(place.path("tiers")).unwrap();
        place.write("terrace.toml", config);
        place.good(["init", "--config", "terrace.toml"]);
        place
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and makes the folders above it.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The binary in this folder, with a home, and a store named by the environment.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HOME", self.path("home")).env("TERRACE_STORE", self.path("store"));
        command.env_remove("XDG_DATA_HOME").env_remove("TERRACE_LOG");
        command
    }

    /// Runs it, whatever comes of that but a panic.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ran {
        ran(self.command(arguments).output().unwrap())
    }

    /// Runs it; it must do well, and have nothing to complain of. What it prints.
    pub fn good<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        ran.out
    }

    /// Runs it with `--json`; what it prints, and its exit code.
    pub fn json<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> (Value, i32) {
        let mut command = self.command(arguments);
        let ran = ran(command.arg("--json").output().unwrap());
        let value = serde_json::from_str(&ran.out);
        (value.unwrap_or_else(|e| panic!("{e}: {:?}, {}", ran.out, ran.err)), ran.code)
    }

    /// Runs it; it must fail, with one message that has all these parts.
    pub fn bad<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>, says: &[&str]) {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert_eq!(ran.err.matches("terrace: ").count(), 1, "{}", ran.err);
        for part in says {
            assert!(ran.err.contains(part), "{part:?} is not in: {}", ran.err);
        }
    }

    /// The keys at or below a prefix, lossily.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let (list, _) = self.json(["ls", prefix]);
        list.as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
    }
}

/// The results of a run, which must not have panicked.
pub fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!err.contains("panicked") && !err.contains("RUST_BACKTRACE"), "{err}");
    Ran { code: output.status.code().unwrap_or(-1), out, err }
}
