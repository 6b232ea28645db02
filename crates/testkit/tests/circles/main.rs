//! Modules beside each other form layers, at every level: none uses one that uses it. The compiler allows circles of modules, so
//! this test looks for them.
//!
//! A use of something deep in a neighbour counts as a use of the neighbour. The file of a folder (`mod.rs`, `lib.rs`) is the
//! place of what its modules share, and puts them together: it and its modules may use each other.

#![allow(clippy::unwrap_used, clippy::panic)]

mod imports;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use imports::Use;
use source::{ModulePath, Modules};

/// The modules of one folder, each with those beside it that it uses, and how.
type Folder = BTreeMap<String, BTreeMap<String, Vec<Use>>>;

fn manifests_below(folder: &Path) -> Vec<PathBuf> {
    let mut manifests = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => manifests.extend(manifests_below(&path)),
            false if path.ends_with("Cargo.toml") => manifests.push(path),
            false => {}
        }
    }
    manifests
}

/// The folders of a crate by their paths.
fn folders_of(modules: &Modules) -> BTreeMap<ModulePath, Folder> {
    let mut folders: BTreeMap<ModulePath, Folder> = BTreeMap::new();
    for one in imports::uses(modules) {
        let depth = one.user.iter().zip(&one.definer).take_while(|(a, b)| a == b).count();
        if let (Some(user), Some(definer)) = (one.user.get(depth), one.definer.get(depth)) {
            let folder = folders.entry(one.user[..depth].to_vec()).or_default();
            folder.entry(user.clone()).or_default().entry(definer.clone()).or_default().push(one);
        }
    }
    folders
}

fn reachable<'a>(folder: &'a Folder, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        for next in folder.get(module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.as_str()) {
                left.push(next);
            }
        }
    }
    found
}

/// Describes the modules of a folder that use themselves by way of others; none if there are none.
fn circle_of(folder: &Folder) -> Option<String> {
    let is_in_circle = |module: &&str| reachable(folder, module).contains(*module);
    let circle: Vec<&str> = folder.keys().map(String::as_str).filter(is_in_circle).collect();
    let mut lines = Vec::new();
    for module in &circle {
        for (other, uses) in folder[*module].iter().filter(|(other, _)| circle.contains(&other.as_str())) {
            let named: BTreeSet<String> = uses.iter().map(|one| one.path.join("::")).collect();
            lines.push(format!("  {module} -> {other}: {}", named.into_iter().collect::<Vec<_>>().join(", ")));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Describes all circles of a crate.
fn circles_of(name: &str, modules: &Modules) -> Vec<String> {
    let folders = folders_of(modules);
    let found = folders.iter().filter_map(|(path, folder)| Some((path, circle_of(folder)?)));
    found.map(|(path, circle)| format!("{name}, modules below {:?}:\n{circle}", path.join("::"))).collect()
}

#[test]
fn no_module_uses_one_that_uses_it() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let manifests = ["bench", "crates", "examples", "fuzz"].map(|folder| manifests_below(&project.join(folder)));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for manifest in manifests.concat() {
        let package = manifest.parent().unwrap();
        for root in ["src/lib.rs", "src/main.rs"].map(|root| package.join(root)).iter().filter(|root| root.exists()) {
            let modules = source::read_crate(root);
            count += modules.len();
            wrong.extend(circles_of(root.strip_prefix(project).unwrap().to_str().unwrap(), &modules));
        }
    }
    assert!(count > 500, "only {count} modules were found: does the test still read the project?");
    assert!(wrong.is_empty(), "modules that use each other; move what both need into a third:\n{}", wrong.join("\n"));
}

/// Writes files of a crate, and returns its circles.
fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    circles_of("a", &source::read_crate(&folder.path().join("lib.rs")))
}

#[test]
fn a_circle_is_found_at_every_level_and_by_every_kind_of_path() {
    let top = "mod a; mod b; mod c; pub use b::B; pub struct Shared;";
    let quiet = ("c.rs", "use crate::a::A; fn f(_: &crate::Shared) {}");
    // A parent and its modules may use each other, and tests may use everything.
    let b = ("b/mod.rs", "mod d; mod e; pub struct B; pub fn f() { d::g() }");
    let d = ("b/d.rs", "use super::B; pub fn g() {} #[cfg(test)] mod tests { use super::super::e::E; }");
    let e = ("b/e.rs", "pub struct E; fn h() { super::d::g() }");
    let none = ("a.rs", "pub struct A;");
    assert_eq!(circles_in(&[("lib.rs", top), none, quiet, b, d, e]), Vec::<String>::new());
    let direct = ("a.rs", "pub struct A; fn f() { crate::b::f() }");
    let back = ("b/e.rs", "pub struct E; use super::super::a::A;");
    let found = circles_in(&[("lib.rs", top), direct, quiet, b, d, back]);
    assert!(found.len() == 1 && found[0].contains("a -> b: crate::b::f") && found[0].contains("b -> a"), "{found:?}");
    // By a name that the root publishes again, in a macro, and by a glob.
    for user in
        ["use crate::B;", "fn f() { vec![crate::B] }", "use super::*; fn f(_: B) {}", "use crate::b; fn f() { b::f() }"]
    {
        let user = format!("pub struct A; {user}");
        assert_eq!(circles_in(&[("lib.rs", top), ("a.rs", &user), quiet, b, d, back]).len(), 1, "{user}");
    }
    let deep = ("b/d.rs", "pub fn g(_: super::e::E) {}");
    let found = circles_in(&[("lib.rs", top), none, quiet, b, deep, e]);
    assert!(found.len() == 1 && found[0].contains("below \"b\"") && found[0].contains("d -> e"), "{found:?}");
}
