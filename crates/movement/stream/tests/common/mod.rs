//! Code that several tests of streams use.

#![allow(dead_code, clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use terrace::{Config, Store};
use terrace_stream::destinations::{Destination, Files, Keys, Outcome};
use terrace_stream::{Failure, Position, Run, Settings};
pub use terrace_testkit::Random;

/// Returns a number from the environment.
pub fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Ends the process if one of its threads panics, because the others would wait for that thread forever.
pub fn fail_as_a_whole() {
    std::panic::set_hook(Box::new(move |info| {
        // Not by a macro: the test's output is captured, and printed only when the test ends.
        let _ = writeln!(std::io::stderr(), "{info}");
        std::process::exit(101);
    }));
}

/// Returns the configuration of memory above a disk.
pub fn config(dir: &Path) -> Config {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 3, default = 1 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\ncapacity = '64MiB'\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/disk']\n"
    );
    Config::parse(&text, "test").unwrap()
}

/// Makes a store with memory above a disk.
pub fn store(dir: &Path) -> Store {
    Store::init(&dir.join("store"), &config(dir)).unwrap()
}

/// Returns settings with small limits, so that each event happens often.
pub fn settings() -> Settings {
    Settings {
        max_bytes: 100_000,
        memory: 400_000,
        retry: Duration::from_millis(2),
        max_age: Duration::from_millis(20),
        rest: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// Destinations of all kinds, selected by the first part of the name. `flaky` sometimes fails after it has written;
/// `bad` always fails, unless all is healthy.
pub struct Routed {
    files: Files,
    keys: Keys,
    healthy: bool,
    random: Mutex<Random>,
}

impl Routed {
    pub fn new(store: &Store, archive: &Path, healthy: bool, seed: u64) -> Routed {
        Routed {
            files: Files::new(archive).unwrap(),
            keys: Keys::new(store, b"archive"),
            healthy,
            random: Mutex::new(Random::new(seed)),
        }
    }

    fn of(&self, name: &[u8]) -> &dyn Destination {
        if name.starts_with(b"key/") { &self.keys } else { &self.files }
    }

    fn fails(&self, name: &[u8]) -> Outcome<()> {
        if name.starts_with(b"bad/") && !self.healthy {
            return Err(Failure::Never("it is bad".into()));
        }
        if name.starts_with(b"flaky/") && self.random.lock().unwrap().below(4) == 0 {
            return Err(Failure::Later("it is flaky".into()));
        }
        Ok(())
    }
}

impl Destination for Routed {
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        self.of(name).length(name)
    }

    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()> {
        self.of(name).write(name, first, runs)?;
        self.fails(name)
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        self.of(name).set_length(name, length)
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        self.fails(name)?;
        self.of(name).sync(name)
    }
}

/// Returns the content of a destination.
pub fn requests_of(store: &Store, archive: &Path, name: &[u8]) -> Vec<u8> {
    let name = std::str::from_utf8(name).unwrap();
    match name.starts_with("key/") {
        true => store.get(format!("archive/{name}").as_bytes()).unwrap(),
        false => std::fs::read(archive.join(name)).unwrap(),
    }
}

/// Returns the content of a tree of files by name, including hidden files.
pub fn tree(root: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(root) else { return all };
    for entry in entries.map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        let Ok(kind) = entry.file_type() else { continue };
        match kind {
            kind if kind.is_dir() => {
                all.extend(tree(&entry.path()).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
            }
            kind if kind.is_file() => {
                // The file may have been removed meanwhile.
                if let Ok(bytes) = std::fs::read(entry.path()) {
                    all.insert(name, bytes);
                }
            }
            _ => {}
        }
    }
    all
}

/// Waits for a condition that must soon hold.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}
