//! A store for tests.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;

use terrace::{Config, Store};

/// Returns a configuration of memory and two disks, all below a folder.
pub fn config(dir: &Path) -> Config {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 3, default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\ncapacity = '1GiB'\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n"
    );
    Config::parse(&text, "test").unwrap()
}

/// Makes a new store.
pub fn store(dir: &Path) -> Store {
    Store::init(&dir.join("store"), &config(dir)).unwrap()
}
