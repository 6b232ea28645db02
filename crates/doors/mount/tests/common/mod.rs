//! A store that is mounted for a test, and unmounted when the test ends or panics.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use terrace::{Config, Files, Store};
use terrace_mount::{Mount, MountError};
use terrace_testkit::{Missing, skip};

pub struct Mounted {
    pub at: PathBuf,
    pub files: Files,
    mount: Option<Mount>,
    _dir: TempDir,
}

impl Mounted {
    /// Mounts a store. Skips the test if nothing can be mounted.
    pub fn new() -> Option<Mounted> {
        // Other users need access, too.
        let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let text = format!(
            "[store]\nreplicas = {{ min = 1, max = 2, default = 2 }}\n\
             [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{0}/ram']\npersistent = false\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{0}/disk']\n",
            dir.path().display()
        );
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
        let at = dir.path().join("above/mnt");
        fs::create_dir_all(&at).unwrap();
        let files = Files::new(&store).unwrap();
        match Mount::begin(&files, &at) {
            Ok(mount) => Some(Mounted { at, files, mount: Some(mount), _dir: dir }),
            Err(error @ (MountError::NoDevice | MountError::Device(_))) => {
                skip("a mounted store", &Missing::new("fuse", error));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = Mount::end(&self.files, &self.at);
        if let Some(mount) = self.mount.take()
            && !std::thread::panicking()
        {
            ended.unwrap();
            drop(mount);
        }
    }
}

/// Finds a program that `make test` installs, or that is on the path. Skips the test if it is missing.
pub fn tool(name: &str) -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = [ours].into_iter().chain(std::env::split_paths(&path)).map(|at| at.join(name)).find(|at| at.exists());
    if found.is_none() {
        skip(name, &Missing::new("programs", format!("{name} is not installed (`make servers tools`)")));
    }
    found
}

/// Runs a program in a directory and returns its output; fails the test if the program fails.
pub fn run<A: AsRef<OsStr>>(program: &Path, arguments: impl IntoIterator<Item = A>, at: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(at).env("LC_ALL", "C").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} failed: {}\n{out}\n{err}", program.display(), output.status);
    out.into_owned()
}
