//! Things that tests find on the machine, or are skipped without.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Missing, skip};

/// The folder of real files that `TERRACE_DATA` names; skips the test without it.
pub fn real_files(test: &str) -> Option<PathBuf> {
    let folder = env::var_os("TERRACE_DATA").map(PathBuf::from);
    if folder.is_none() {
        skip(test, &Missing::new("data", "TERRACE_DATA names no folder of files"));
    }
    folder
}

/// A Python that has these modules: the one that `TERRACE_PYTHON` names, the one in which the project's own tests run, or the
/// machine's. Skips the test if it lacks one; `need` is the name in `TERRACE_TEST_REQUIRE`.
pub fn python_with(test: &str, need: &'static str, modules: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    let usual = if own.exists() { own } else { "python3".into() };
    let python = env::var_os("TERRACE_PYTHON").map_or(usual, PathBuf::from);
    let found = match Command::new(&python).args(["-c", &format!("import {modules}")]).output() {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    skip(test, &Missing::new(need, format!("{} has no {modules}: {found}", python.display())));
    None
}
