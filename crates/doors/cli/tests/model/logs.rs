//! Faults of the commit log and its copies.

use std::fs;

use super::checker::Checker;
use super::faults::{Done, files_of};
use super::model::{Change, Loss, lane_of};
use super::versions::bytes_of;

impl Checker {
    pub fn lose_log(&mut self) -> Done {
        let log = self.place.root("store/log");
        if self.random.once_in(2) {
            self.place.note("rm -r store/log");
            fs::remove_dir_all(&log).map_err(|e| e.to_string())?;
        } else {
            self.damage_a_file(&log)?;
        }
        if self.random.once_in(2) {
            self.place.note("rm -r store/catalog");
            fs::remove_dir_all(self.place.root("store/catalog")).map_err(|e| e.to_string())?;
        }
        let seen = self.must(&["ls", "--json"], &[0, 1])?;
        if seen.code == Some(1) && !seen.err.contains("rebuild") {
            return Err(format!("it does not say what to do: {}", seen.err));
        }
        let rebuilt = self.must(&["rebuild"], &[0, 1])?;
        if rebuilt.code == Some(0) {
            self.read(Loss::Domains)?;
            return self.settle();
        }
        // What came after the copies were brought up is gone, and that was said.
        self.salvage()
    }

    pub fn lose_all_logs(&mut self) -> Done {
        let whole = self.random.once_in(2);
        for log in ["store/log", "a/log", "b/log", "c/log"].map(|log| self.place.root(log)) {
            match whole {
                true if log.exists() => fs::remove_dir_all(&log).map_err(|e| e.to_string())?,
                true => {}
                false => self.damage_a_file(&log)?,
            }
        }
        self.place.note(if whole { "all logs are removed" } else { "all logs are damaged" });
        if self.random.once_in(2) {
            self.place.note("rm -r store/catalog");
            fs::remove_dir_all(self.place.root("store/catalog")).map_err(|e| e.to_string())?;
        }
        for words in [&["ls"][..], &["status"], &["sync"]] {
            self.must(words, &[0, 1])?;
        }
        self.salvage()
    }

    /// Salvages: every version that was there is found, under its key or without one. Then begins with nothing again.
    fn salvage(&mut self) -> Done {
        self.must(&["rebuild", "--salvage"], &[0, 1])?;
        let found = self.place.path("out/salvaged");
        let _ = fs::remove_dir_all(&found);
        self.must(&["get", "", "out/salvaged"], &[0, 1])?;
        let mut versions: Vec<u64> = Vec::new();
        for file in files_of(&found) {
            let bytes = fs::read(&file).map_err(|e| e.to_string())?;
            let Some(head) = bytes.first_chunk() else { continue };
            let version = u64::from_le_bytes(*head);
            let known = self.model.versions.get(&version).ok_or(format!("{} is no version", file.display()))?;
            let whole = bytes_of(version, known.length);
            if !whole.starts_with(&bytes) {
                return Err(format!("{} is not version {version}", file.display()));
            }
            // What a killed command had written so far may be found, too: where an object ends stood in the log.
            if bytes.len() == whole.len() {
                versions.push(version);
            }
        }
        for (key, version) in self.model.all() {
            if self.model.versions[&version].length > 0 && !versions.contains(&version) {
                return Err(format!("{key} was there, and version {version} was not salvaged"));
            }
        }
        self.must(&["rm", "-r", "--all", ""], &[0, 1])?;
        for (key, _) in self.model.all() {
            let lane = lane_of(&key).ok_or("a key of no lane")?;
            self.model.apply(lane, &Change::Remove(key), Some(Loss::Power));
        }
        self.settle()
    }
}
