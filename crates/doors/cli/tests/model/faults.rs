//! Faults between commands, and what must be there afterwards.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::checker::Checker;
use super::model::{Change, Loss, lane_of};
use super::versions::{Version, bytes_of};

/// What may go wrong while no command runs.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The machine starts again, and memory is empty. All that was written is on the disk.
    Reboot,
    /// Files of one target are damaged.
    Damage,
    /// Files of two targets are damaged.
    DamageTwice,
    /// A target is emptied, and renewed.
    Emptied,
    /// The catalog is lost.
    Catalog,
    /// The catalog's file is cut.
    CutCatalog,
    /// The boot mark is lost or says nothing.
    BootMark,
    /// The store's log is lost or damaged; its copies are whole.
    Log,
    /// The log is lost or damaged together with all its copies.
    AllLogs,
}

/// The tiers, and the folders of their targets.
const TARGETS: [(&str, &str); 4] = [("ram", "ram"), ("disk", "a"), ("disk", "b"), ("archive", "c")];

type Done = Result<(), String>;

impl Checker {
    /// Lets something go wrong, looks at what is left, and mends it.
    pub fn suffer(&mut self, fault: Fault) -> Done {
        *self.counts.faults.entry(format!("{fault:?}")).or_default() += 1;
        self.place.note(format!("{fault:?}"));
        match fault {
            Fault::Reboot => self.reboot(),
            Fault::Damage => self.damage(1),
            Fault::DamageTwice => self.damage(2),
            Fault::Emptied => self.empty_target(),
            Fault::Catalog => self.lose_catalog(),
            Fault::CutCatalog => self.cut_catalog(),
            Fault::BootMark => self.lose_boot_mark(),
            Fault::Log => self.lose_log(),
            Fault::AllLogs => self.lose_all_logs(),
        }
    }

    fn reboot(&mut self) -> Done {
        self.place.reboot();
        self.look(Loss::Power)?;
        self.model.forget_replicas();
        self.read(Loss::Power)?;
        self.settle()
    }

    /// Makes all that is owed; then nothing is bad, and a new catalog tells the same.
    pub fn settle(&mut self) -> Done {
        self.must(&["sync"], &[0])?;
        self.model.synced();
        self.must(&["scrub"], &[0])?;
        if self.random.once_in(3) {
            self.must(&["rebuild"], &[0])?;
        }
        let status = self.must(&["status", "--json"], &[0])?.json();
        if status["owed"] != 0 {
            return Err(format!("something is owed after a sync: {status}"));
        }
        if !self.place.has_disk() {
            // After a power cut a name that was removed may be there again: it is not looked at yet.
            self.look_at_plain_files()?;
        }
        self.read(Loss::Processes)
    }

    /// Every plain file is of an object that is there, and has its bytes.
    fn look_at_plain_files(&self) -> Done {
        let all = self.model.all();
        for files in ["a", "b", "c"].map(|target| self.place.root(target).join("files")) {
            // A name whose number is gone is nobody's, and goes when it is used again.
            let ours = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.nlink() > 1);
            for path in files_of(&files).into_iter().filter(ours) {
                let key = path.strip_prefix(&files).unwrap_or(&path).to_string_lossy().into_owned();
                let version = all.get(&key).ok_or(format!("{} is of no object", path.display()))?;
                self.is_version(&path, *version)?;
            }
        }
        Ok(())
    }

    /// Runs a command, which must end with one of these exit codes.
    pub fn must(&mut self, words: &[&str], codes: &[i32]) -> Result<super::place::Ran, String> {
        let ran = self.place.run(words);
        self.counts.commands += 1;
        match ran.code {
            Some(code) if codes.contains(&code) && !ran.err.contains("panicked") => Ok(ran),
            code => {
                let out = String::from_utf8_lossy(&ran.out).into_owned();
                Err(format!("`{}` ended with {code:?}: {}{out}", words.join(" "), ran.err))
            }
        }
    }

    fn damage(&mut self, targets: usize) -> Done {
        let first = self.random.below(4) as usize;
        for (_, folder) in (first..first + targets).map(|target| TARGETS[target % 4]) {
            for kind in ["segments", "plain"] {
                for _ in 0..1 + self.random.below(3) {
                    self.damage_a_file(&self.place.root(folder).join(kind))?;
                }
            }
        }
        let may_go = |version: &Version| targets > 1 && version.length > 0 || !version.outlives_a_domain();
        let (_, unread) = self.read_all()?;
        let found = self.must(&["scrub", "--json"], &[0, 1])?;
        let named = |key: &String| !found.json()["lost_of"][key].is_null();
        if let Some(key) = unread.iter().find(|key| !named(key)) {
            return Err(format!("{key} cannot be read, and `scrub` does not say so: {}", found.json()));
        }
        let mended = self.must(&["repair", "--json"], &[0, 1])?;
        let lost: Vec<String> =
            mended.json()["lost_of"].as_object().map_or(Vec::new(), |lost| lost.keys().cloned().collect());
        if lost.is_empty() != (mended.code == Some(0)) {
            return Err(format!("`repair` ended with {:?}: {}", mended.code, mended.json()));
        }
        let all = self.model.all();
        for key in lost.iter().chain(&unread) {
            let version = all.get(key).and_then(|version| self.model.versions.get(version));
            if !version.is_some_and(may_go) {
                return Err(format!("{key} is lost, though it was acknowledged: {version:?}"));
            }
        }
        for key in &lost {
            self.must(&["rm", key], &[0])?;
            let lane = lane_of(key).ok_or("a key of no lane")?;
            self.model.apply(lane, &Change::Remove(key.clone()), Some(Loss::Processes));
        }
        self.settle()
    }

    /// Damages one file of a folder, if there is any.
    pub fn damage_a_file(&mut self, folder: &Path) -> Done {
        let mut files = files_of(folder);
        files.retain(|file| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0));
        if files.is_empty() {
            return Ok(());
        }
        let path = self.random.pick(&files).clone();
        let damaged = self.damage_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        self.place.note(format!("{damaged}: {}", path.display()));
        Ok(())
    }

    fn damage_file(&mut self, path: &Path) -> std::io::Result<String> {
        let length = fs::metadata(path)?.len();
        let file = File::options().read(true).write(true).open(path)?;
        let at = self.random.below(length);
        match self.random.below(5) {
            0 => fs::remove_file(path).map(|()| "removed".into()),
            // A segment that was cut is not among the faults yet: what is appended to it takes places that were used before,
            // and is punched out with what is freed there later.
            1 if !path.parent().is_some_and(|folder| folder.ends_with("segments")) => {
                file.set_len(at).map(|()| format!("cut to {at}"))
            }
            2 => {
                let bytes = self.random.bytes(4096.min(length - at) as usize);
                file.write_all_at(&bytes, at).map(|()| format!("written over at {at}"))
            }
            _ => {
                let flips = 1 + self.random.below(50);
                for _ in 0..flips {
                    let (at, mut byte) = (self.random.below(length), [0]);
                    file.read_exact_at(&mut byte, at)?;
                    file.write_all_at(&[byte[0] ^ 1 << self.random.below(8)], at)?;
                }
                Ok(format!("{flips} bits flipped"))
            }
        }
    }

    fn empty_target(&mut self) -> Done {
        // Of a tier's targets all are renewed together.
        let (tier, folder) = [TARGETS[0], TARGETS[3]][self.random.below(2) as usize];
        let folder = self.place.root(folder);
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        self.place.note(format!("rm -r {}", folder.display()));
        if tier != "ram" {
            let status = self.must(&["status", "--json"], &[0])?.json();
            let state = |tier: &serde_json::Value| tier["name"] == "archive" && tier["state"] == "away";
            if !status["tiers"].as_array().is_some_and(|tiers| tiers.iter().any(state)) {
                return Err(format!("an emptied tier is not away: {status}"));
            }
        }
        let (_, unread) = self.read_all()?;
        self.all_thin(&unread)?;
        if tier != "ram" {
            self.must(&["tiers", "renew", tier], &[0])?;
        }
        let mended = self.must(&["repair", "--json"], &[0, 1])?;
        for key in mended.json()["lost_of"].as_object().into_iter().flat_map(|lost| lost.keys()) {
            self.all_thin(std::slice::from_ref(key))?;
            self.must(&["rm", key], &[0])?;
            let lane = lane_of(key).ok_or("a key of no lane")?;
            self.model.apply(lane, &Change::Remove(key.clone()), Some(Loss::Processes));
        }
        self.settle()
    }

    /// Whether all these may be lost with one domain.
    fn all_thin(&self, keys: &[String]) -> Done {
        let all = self.model.all();
        let outlives =
            |key: &&String| all.get(*key).is_none_or(|version| self.model.versions[version].outlives_a_domain());
        match keys.iter().find(outlives) {
            Some(key) => Err(format!("{key} is lost with one failure domain, though it was acknowledged")),
            None => Ok(()),
        }
    }

    fn lose_catalog(&mut self) -> Done {
        let catalog = self.place.root("store/catalog");
        let lost = match self.random.below(2) {
            0 => fs::remove_dir_all(&catalog),
            _ => fs::remove_file(catalog.join("data.mdb")),
        };
        lost.map_err(|e| e.to_string())?;
        self.rebuilt(Loss::Processes)
    }

    fn cut_catalog(&mut self) -> Done {
        let data = self.place.root("store/catalog/data.mdb");
        let length = fs::metadata(&data).map_err(|e| e.to_string())?.len();
        let at = self.random.below(length);
        self.place.note(format!("data.mdb is cut from {length} to {at}"));
        File::options().write(true).open(&data).and_then(|file| file.set_len(at)).map_err(|e| e.to_string())?;
        self.rebuilt(Loss::Processes)
    }

    /// What is lost beside the log is made again, by itself or when it is asked for.
    fn rebuilt(&mut self, loss: Loss) -> Done {
        let seen = self.must(&["ls", "--json"], &[0, 1])?;
        match seen.code {
            Some(0) => {
                let found = self.listed(&seen)?;
                self.model.observe(loss, &found)?;
            }
            _ if !seen.err.contains("rebuild") => return Err(format!("it does not say what to do: {}", seen.err)),
            _ => {
                self.must(&["rebuild"], &[0])?;
            }
        }
        self.read(loss)?;
        self.settle()
    }

    fn lose_boot_mark(&mut self) -> Done {
        let mark = self.place.root("store/boot");
        let lost = match self.random.below(3) {
            0 => fs::remove_file(mark),
            1 => fs::write(mark, ""),
            _ => fs::write(mark, "\0\0\0\0\0\0"),
        };
        lost.map_err(|e| e.to_string())?;
        self.read(Loss::Processes)?;
        self.settle()
    }

    fn lose_log(&mut self) -> Done {
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

    fn lose_all_logs(&mut self) -> Done {
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
        self.must(&["rm", "-r", ""], &[0, 1])?;
        for (key, _) in self.model.all() {
            let lane = lane_of(&key).ok_or("a key of no lane")?;
            self.model.apply(lane, &Change::Remove(key), Some(Loss::Power));
        }
        self.settle()
    }
}

/// All files below a folder.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_of(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}
