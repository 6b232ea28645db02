//! Where a path leads to.

use std::path::{Component, Path, PathBuf};

/// Resolves links and dots in a path, as far as its components exist.
pub fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for component in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match component {
            Component::ParentDir => drop(real.pop()),
            component => {
                real.push(component);
                real = real.canonicalize().unwrap_or(real);
            }
        }
    }
    real
}
