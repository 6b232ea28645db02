//! Golden stores: archives of stores that older versions wrote, which tests must always be able to read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that makes tests write golden files that are not there yet.
const WRITE_VARIABLE: &str = "TERRACE_WRITE_GOLDEN";

/// Files that a store creates again when it is opened, and files for one machine and one boot. A store's paths are in its
/// configuration.
const NOT_KEPT: [&str; 18] = [
    "appends",
    "boot",
    "catalog",
    "copies",
    "following",
    "hotness*",
    "leases",
    "lock",
    "machine",
    "mover",
    "names-[0-9]*",
    "origin-turns",
    "predictor.*",
    "rules*",
    "terrace.toml",
    "throttle-*",
    "trusted",
    "used-*",
];

/// The archive of a golden store of the crate whose manifest lies in `manifest`.
pub fn archive(manifest: &str, name: &str) -> PathBuf {
    Path::new(manifest).join("tests/golden").join(format!("{name}.tar.gz"))
}

/// Returns whether this archive should be written: if that was requested, and the archive does not exist. Existing
/// archives are never replaced.
pub fn is_wanted(archive: &Path) -> bool {
    std::env::var_os(WRITE_VARIABLE).is_some() && !archive.exists()
}

/// Writes the content of `folder` to an archive, with hard links and holes.
///
/// # Panics
/// If `tar` fails.
pub fn pack(folder: &Path, archive: &Path) {
    fs::create_dir_all(archive.parent().expect("an archive has a folder")).expect("makes the folder");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    tar.arg(archive).arg("--directory").arg(folder);
    // Only in a store's own directory, because a target may have a folder of the same name.
    tar.arg("--wildcards").args(NOT_KEPT.map(|name| format!("--exclude=./*store*/{name}"))).arg(".");
    assert!(tar.status().expect("runs tar").success(), "tar cannot write {}", archive.display());
}

/// Unpacks an archive into `folder`.
///
/// # Panics
/// If `tar` fails.
pub fn unpack(archive: &Path, folder: &Path) {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--no-same-owner", "--file"]).arg(archive).arg("--directory").arg(folder);
    assert!(tar.status().expect("runs tar").success(), "tar cannot read {}", archive.display());
}
