//! Pipes in the place of files that hold a store's bytes or records: opening one in the usual way waits until somebody writes to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::place::{Place, noise};

/// A command that takes longer hangs.
const MAX_COMMAND_TIME: Duration = Duration::from_secs(20);

/// All regular files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let below = entries.flat_map(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => files_below(&entry.path()),
        kind if kind.is_file() => vec![entry.path()],
        _ => Vec::new(),
    });
    below.collect()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Empties a folder, which stays the same one.
fn empty_folder(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
}

fn ends(place: &Place, words: &[&str]) -> bool {
    let mut child = place.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + MAX_COMMAND_TIME;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn no_command_waits_for_a_pipe_in_the_place_of_a_file_of_the_store() {
    let mut waits = Vec::new();
    for layout in ["frames", "plain"] {
        let place = Place::with("", &format!("layout = '{layout}'"));
        place.write("a", noise(40_000, 1));
        place.good(["put", "a", "k", "--ack", "durable"]);
        let whole = place.path("whole");
        for folder in ["store", "tiers"] {
            copy_folder(&place.path(folder), &whole.join(folder));
        }
        let holds_data =
            |path: &PathBuf| ["segments", "plain", "log"].iter().any(|folder| path.parent().unwrap().ends_with(folder));
        let files = ["store", "tiers"].map(|folder| files_below(&whole.join(folder))).concat();
        let files: Vec<PathBuf> = files.into_iter().filter(holds_data).collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files.iter().map(|file| file.strip_prefix(&whole).unwrap()) {
            for words in [&["cat", "k"][..], &["scrub"], &["put", "a", "b"], &["rebuild"]] {
                for folder in ["store", "tiers"] {
                    empty_folder(&place.path(folder));
                    copy_folder(&whole.join(folder), &place.path(folder));
                }
                fs::remove_file(place.path(file)).unwrap();
                mknodat(CWD, place.path(file), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
                if !ends(&place, words) {
                    waits.push(format!("{words:?} with a pipe at {}", file.display()));
                }
            }
        }
    }
    assert!(waits.is_empty(), "{waits:#?}");
}
