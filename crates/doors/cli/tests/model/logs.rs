//! Faults of the commit log and its copies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checker::Checker;
use super::faults::{Done, files_of};
use super::model::{Change, Loss, lane_of};
use super::place::Fate;
use super::versions::bytes_of;

const SALVAGE_POINTS: [&str; 4] = ["salvage:opened", "salvage:left-log", "salvage:offered", "salvage:restarted"];

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
        let logs = ["store/log", "a/log", "b/log", "c/log"].map(|log| self.place.root(log));
        match self.random.below(3) {
            0 => {
                self.place.note("all logs are removed");
                let mut there = logs.iter().filter(|log| log.exists());
                there.try_for_each(fs::remove_dir_all).map_err(|e| e.to_string())?;
            }
            1 => {
                self.place.note("all logs are damaged");
                logs.iter().try_for_each(|log| self.damage_a_file(log))?;
            }
            _ => self.cut_last_files(&logs)?,
        }
        if self.random.once_in(2) {
            self.place.note("rm -r store/catalog");
            fs::remove_dir_all(self.place.root("store/catalog")).map_err(|e| e.to_string())?;
        }
        for words in [&["ls"][..], &["status"], &["sync"]] {
            self.must(words, &[0, 1])?;
        }
        self.salvage()
    }

    /// Damages copies of the log. Each of them is whole after a repair.
    pub fn damage_log_copies(&mut self) -> Done {
        for _ in 0..1 + self.random.below(3) {
            let target = *self.random.pick(&["a", "b", "c"]);
            self.damage_a_file(&self.place.root(target).join("log"))?;
        }
        self.must(&["repair"], &[0])?;
        self.settle()
    }

    /// Checks that each copy of the log has its newest snapshot, and all records that were durable.
    pub fn compare_log_copies(&self) -> Done {
        let log = self.place.root("store/log");
        let reach =
            fs::read_to_string(self.place.root("store/log-reach")).map_err(|e| format!("store/log-reach: {e}"))?;
        let reach = reach.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("reach ")?, 16).ok());
        let mut compared = records_until(&log, reach.ok_or("store/log-reach names no commit")?)?;
        let newest = files_of(&log).into_iter().rfind(|path| has_ending(path, "snapshot"));
        compared.extend(
            newest
                .map(|newest| fs::read(&newest).map(|bytes| (newest, bytes)))
                .transpose()
                .map_err(|e| e.to_string())?,
        );
        let copies = ["a/log", "b/log", "c/log"].map(|copy| self.place.root(copy));
        for copy in copies.iter().filter(|copy| copy.exists()) {
            for (path, bytes) in &compared {
                let copy = copy.join(path.file_name().unwrap_or_default());
                let copied = fs::read(&copy).map_err(|e| format!("{}: {e}", copy.display()))?;
                let is_whole = if has_ending(path, "snapshot") { copied == *bytes } else { copied.starts_with(bytes) };
                if !is_whole {
                    return Err(format!("{} is not as the store's own", copy.display()));
                }
            }
        }
        Ok(())
    }

    /// Cuts the last file of the log and of its copies at the same place.
    fn cut_last_files(&mut self, logs: &[PathBuf]) -> Done {
        let Some(last) = files_of(&logs[0]).pop() else { return Ok(()) };
        let length = self.random.below(fs::metadata(&last).map_err(|e| e.to_string())?.len() + 1);
        self.place.note(format!("{} ends after {length} bytes in all logs", last.display()));
        for copy in logs.iter().map(|log| log.join(last.file_name().unwrap_or_default())).filter(|copy| copy.exists()) {
            let cut = File::options().write(true).open(&copy).and_then(|file| match file.metadata()?.len() > length {
                true => file.set_len(length),
                false => Ok(()),
            });
            cut.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Begins a salvage that dies, and runs another command on what it has left.
    fn stop_a_salvage(&mut self) -> Done {
        let fate = match self.random.once_in(2) {
            true => Fate::FailPoint(format!("{}@1", self.random.pick(&SALVAGE_POINTS))),
            false => Fate::Killed(Duration::from_micros(self.random.below(100_000))),
        };
        let run = self.place.start(&["rebuild".to_owned(), "--salvage".to_owned()], None, fate.clone());
        let ran = self.place.wait(vec![run]).remove(0);
        self.counts.commands += 1;
        match (ran.code, fate) {
            (None, Fate::FailPoint(point)) => {
                let name = point.trim_end_matches("@1");
                *self.counts.fail_points.entry(name.to_owned()).or_default() += 1;
            }
            (None, _) => self.counts.kills += 1,
            (Some(0 | 1), _) => {}
            (Some(code), _) => return Err(format!("a salvage ended with {code}: {}", ran.err)),
        }
        let words = *self.random.pick(&[&["ls"][..], &["health"], &["sync"], &["prune"], &["rebuild"]]);
        self.must(words, &[0, 1, 2, 3]).map(drop)
    }

    /// Salvages: every version that was there is found, under its key or without one. Then begins with nothing again.
    fn salvage(&mut self) -> Done {
        while self.random.once_in(2) {
            self.stop_a_salvage()?;
        }
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

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

/// The files of a log, oldest first, each with its bytes up to commit `last`. After a kill or a power cut, a file may go on behind the end of the
/// log, and a whole file may belong to nobody: a record belongs to the log if it names the checksum of the one before it.
fn records_until(log: &Path, last: u64) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let mut files = Vec::new();
    let mut before: Option<u64> = None;
    for path in files_of(log).into_iter().filter(|path| has_ending(path, "log")) {
        let mut bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut end = 0;
        while let Some(header) = bytes.get(end..end + 48).filter(|header| header.starts_with(b"TRLG")) {
            let number = |at: usize| u64::from_le_bytes(header[at..][..8].try_into().expect("8 bytes"));
            let (payload_bytes, first, follows, checksum) = (number(8) as u32, number(16), number(24), number(40));
            if first > last || before.is_some_and(|before| before != follows) {
                break;
            }
            before = Some(checksum);
            end += 48 + payload_bytes as usize;
        }
        bytes.truncate(end);
        if end > 0 {
            files.push((path, bytes));
        }
    }
    Ok(files)
}
