//! Which module's items each module uses.

use std::collections::BTreeSet;

use crate::source::{ModulePath, Modules};

/// How many imports of imports are followed. More of them are a circle of names, which the compiler refuses.
const MAX_IMPORT_DEPTH: usize = 16;

/// The end of a path.
enum Target {
    /// A module.
    Module(ModulePath),
    /// An item that this module defines.
    ItemOf(ModulePath),
}

/// One module that uses an item of another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The module that uses the item.
    pub user: ModulePath,
    /// The module that defines the item.
    pub definer: ModulePath,
    /// The path by which the user names it.
    pub path: Vec<String>,
}

/// All uses of a module's item by another module.
pub fn uses(modules: &Modules) -> BTreeSet<Use> {
    let mut uses = BTreeSet::new();
    for (user, module) in modules {
        for path in module.named.iter().filter(|path| !path.is_empty()) {
            if let Some(Target::ItemOf(definer)) = resolve(modules, user, path, 0)
                && definer != *user
            {
                uses.insert(Use { user: user.clone(), definer, path: path.clone() });
            }
        }
    }
    uses
}

/// The end of a path that `from` names; none outside the crate.
fn resolve(modules: &Modules, from: &ModulePath, path: &[String], depth: usize) -> Option<Target> {
    let mut current = from.clone();
    // A path's first name may also be that of another crate.
    let mut is_inside = false;
    for (at, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => current = Vec::new(),
            "super" => drop(current.pop()?),
            "self" => {}
            _ => {
                let is_last = at + 1 == path.len();
                match step(modules, &current, name, is_last, depth) {
                    Some(Target::Module(next)) => current = next,
                    Some(item) => return Some(item),
                    None if is_inside && modules[&current].imported.contains_key(name) => return None,
                    None if is_inside => return Some(Target::ItemOf(current)),
                    None => return None,
                }
            }
        }
        is_inside = true;
    }
    Some(Target::Module(current))
}

/// The module or item that a module knows by this name.
fn step(modules: &Modules, module: &ModulePath, name: &str, is_last: bool, depth: usize) -> Option<Target> {
    let known = modules.get(module)?;
    let is_defined = known.defined.contains(name);
    if known.children.contains(name) && !(is_last && is_defined) {
        return Some(Target::Module(module.iter().cloned().chain([name.to_owned()]).collect()));
    }
    if is_defined {
        return Some(Target::ItemOf(module.clone()));
    }
    if depth == MAX_IMPORT_DEPTH {
        return None;
    }
    if let Some(path) = known.imported.get(name) {
        // A name that is imported by its own name from another crate.
        return if path.first().is_some_and(|first| first == name) {
            None
        } else {
            resolve(modules, module, path, depth + 1)
        };
    }
    known.globs.iter().find_map(|glob| match resolve(modules, module, glob, depth + 1)? {
        Target::Module(source) if source != *module => step(modules, &source, name, is_last, depth + 1),
        _ => None,
    })
}
