//! The folders below `crates/` are layers: a crate uses its own layer and those below it. Cargo sees no circle of folders, so
//! this test does.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Each layer, and the layers that its crates may use beside their own.
const ALLOWED_LAYERS: [(&str, &[&str]); 8] = [
    ("core", &[]),
    ("brain", &["core"]),
    ("storage", &["core"]),
    ("engine", &["core", "brain", "storage"]),
    ("movement", &["core", "brain", "storage", "engine"]),
    ("layouts", &["core", "brain", "storage", "engine"]),
    ("dump", &["core", "brain", "storage", "engine"]),
    ("doors", &["core", "brain", "storage", "engine", "movement", "layouts", "dump"]),
];

/// Crates that use fewer layers than their folder allows: what other systems embed has no store in it.
const NARROWER_CRATES: [(&str, &[&str]); 1] = [("terrace-brain", &["core", "brain"])];

/// The folder below `crates/` that holds the package; none for the bench and the testkit, which may use everything.
fn layer(package: &Path, crates: &Path) -> Option<&'static str> {
    let folder = package.strip_prefix(crates).ok()?.iter().next()?.to_str()?.to_owned();
    ALLOWED_LAYERS.iter().map(|(name, _)| *name).find(|name| *name == folder)
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn crates_use_only_the_layers_below_them() {
    let metadata = metadata();
    let crates = PathBuf::from(metadata["workspace_root"].as_str().unwrap()).join("crates");
    let mut edges = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(own) = layer(Path::new(package["manifest_path"].as_str().unwrap()), &crates) else { continue };
        let narrower = NARROWER_CRATES.iter().find(|(narrow, _)| *narrow == name);
        let allowed = ALLOWED_LAYERS.iter().find(|(layer, _)| *layer == own).unwrap().1;
        let allowed = narrower.map_or(allowed, |(_, allowed)| allowed);
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(path) = dependency["path"].as_str() else { continue };
            if dependency["kind"] == "dev" {
                continue;
            }
            if let Some(used) = layer(Path::new(path), &crates) {
                let dependency = &dependency["name"];
                let is_allowed = (used == own && narrower.is_none()) || allowed.contains(&used);
                assert!(is_allowed, "{name} ({own}) may not use {dependency} ({used})");
                edges += 1;
            }
        }
    }
    assert!(edges > 20, "only {edges} dependencies were found: does the test still read the workspace?");
}
