//! The modules of a crate form layers: none imports a module that imports it. The compiler allows circles of modules, so this
//! test looks for them.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A crate's modules, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The text of a file without comments and without its tests, which may use the whole crate.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin with `crate::`.
fn names_from_crate(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(group) => names.extend(first_names(group)),
            None => drop(names.insert(leading_name(after))),
        }
    }
    names
}

fn leading_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first name of each path in a group, up to its closing brace.
fn first_names(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(leading_name(group[start..at].trim_start()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The names that a crate's root makes its own, with the modules that they come from.
fn reexported(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in root.split("pub use ").chain(root.split("pub(crate) use ")).skip(1) {
        let path = item.split(';').next().unwrap_or_default();
        let Some((module, rest)) = path.trim_start_matches("self::").split_once("::") else { continue };
        if modules.contains(module) {
            let listed = rest.trim_matches(|c| c == '{' || c == '}').split(',').map(leading_part);
            names.extend(listed.map(|name| (name, module.to_owned())));
        }
    }
    names
}

/// The last name of a path in a list: `a::B` is used as `B`, `a::B as C` as `C`.
fn leading_part(item: &str) -> String {
    let name = item.trim().rsplit(" as ").next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().trim().to_owned()
}

/// The imports between the modules right below a crate's root.
fn imports_of(source: &Path) -> Imports {
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files.entry(name).or_default().extend(files_below(&path)),
            false if name != "lib" && name != "main" => files.entry(name).or_default().push(path),
            false => {}
        }
    }
    let modules: BTreeSet<String> = files.keys().cloned().collect();
    let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
    let root: String = roots.iter().filter(|root| root.exists()).map(|root| code_of(root)).collect();
    let reexported = reexported(&root, &modules);
    let resolve = |name: String| if modules.contains(&name) { Some(name) } else { reexported.get(&name).cloned() };
    let is_code = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut imports = Imports::new();
    for (module, paths) in &files {
        let names = paths.iter().filter(is_code).flat_map(|path| names_from_crate(&code_of(path)));
        let used = names.filter_map(resolve).filter(|name| name != module).collect();
        imports.insert(module.clone(), used);
    }
    imports
}

fn reachable<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(module) = left.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if found.insert(next.as_str()) {
                left.push(next);
            }
        }
    }
    found
}

/// The modules that import themselves by way of others.
fn circle_of(imports: &Imports) -> Vec<&str> {
    imports.keys().map(String::as_str).filter(|module| reachable(imports, module).contains(module)).collect()
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    let manifests: Vec<PathBuf> = files_below(crates).into_iter().filter(|path| path.ends_with("Cargo.toml")).collect();
    assert!(manifests.len() > 20, "only {} crates were found", manifests.len());
    for manifest in manifests {
        let package = manifest.parent().unwrap();
        let source = package.join("src");
        if !source.is_dir() {
            continue;
        }
        let name = package.strip_prefix(crates).unwrap().to_str().unwrap();
        let imports = imports_of(&source);
        let circle = circle_of(&imports);
        if !circle.is_empty() {
            let edges = circle.iter().map(|module| {
                let to: Vec<&str> =
                    imports[*module].iter().map(String::as_str).filter(|to| circle.contains(to)).collect();
                format!("  {module} -> {}", to.join(", "))
            });
            let edges: Vec<String> = edges.collect();
            wrong.push(format!("{name}: modules that import each other:\n{}", edges.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let imports: Imports = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["a"]), ("d", vec!["a"])]
        .map(|(module, to)| (module.to_owned(), to.into_iter().map(str::to_owned).collect()))
        .into_iter()
        .collect();
    assert_eq!(circle_of(&imports), ["a", "b", "c"]);
    let names = names_from_crate("use crate::{Error, a::{B, C}, d};\nfn f(x: crate::e::F) {}");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["Error", "a", "d", "e"]);
}
