//! Faults of targets: files that are damaged, and targets that are emptied.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checker::Checker;
use super::faults::{Done, files_of};
use super::model::{Change, LANE_COUNT, Loss, lane_of};
use super::place::{Fate, Run};
use super::versions::Version;

/// The tiers, and the folders of their targets.
const ALL_TARGETS: [(&str, &str); 4] = [("ram", "ram"), ("disk", "a"), ("disk", "b"), ("archive", "c")];

impl Checker {
    pub fn damage(&mut self, targets: usize) -> Done {
        let first = self.random.below(4) as usize;
        // A move finds a bad replica beside each that it takes away only if all of a target are bad.
        let moves = targets == 1 && !self.place.shape.tight && !self.random.once_in(4);
        let damages_all = moves && self.random.once_in(2);
        for (_, folder) in (first..first + targets).map(|target| ALL_TARGETS[target % 4]) {
            for kind in ["segments", "plain"] {
                let folder = self.place.root(folder).join(kind);
                match damages_all {
                    true => self.damage_all_files(&folder)?,
                    false => (0..1 + self.random.below(3)).try_for_each(|_| self.damage_a_file(&folder))?,
                }
            }
        }
        if moves {
            for _ in 0..1 + self.random.below(3) {
                self.move_beside_damage(ALL_TARGETS[first].0)?;
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
        self.model.note_thinned(false);
        self.settle()
    }

    /// Moves replicas off a tier, which may be away meanwhile, while another one has damaged files. No bytes whose last good replica is on the tier may go,
    /// whether somebody has found the damage or not. Not where memory is evicted from all the time, which reads nothing.
    fn move_beside_damage(&mut self, damaged: &str) -> Done {
        let others: Vec<&str> = ["ram", "disk", "archive"].into_iter().filter(|tier| *tier != damaged).collect();
        let tier = *self.random.pick(&others);
        let folders = ALL_TARGETS.iter().filter(|(name, _)| *name == tier).map(|(_, folder)| self.place.root(folder));
        let folders: Vec<PathBuf> = folders.collect();
        let is_away = tier != "ram" && self.random.once_in(2);
        let away = |folder: &PathBuf| folder.with_extension("away");
        for folder in folders.iter().filter(|_| is_away) {
            fs::rename(folder, away(folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        self.place.note(format!("{} away: {is_away}", folders[0].display()));
        self.find_some_damage()?;
        let lane = format!("l{}", self.random.below(LANE_COUNT as u64));
        match self.random.below(6) {
            0 if is_away => drop(self.must(&["tiers", "renew", tier], &[0, 1])?),
            0 | 1 => drop(self.must(&["evict", &lane, "--tier", tier], &[0, 1])?),
            2 => self.want_one_replica()?,
            3 => {
                let both = others.iter().map(|tier| vec!["drain".to_owned(), (*tier).to_owned()]);
                let runs: Vec<_> = both.map(|words| self.place.start(&words, None, Fate::Lives)).collect();
                self.end_of(runs)?;
            }
            _ => drop(self.must(&["drain", tier], &[0, 1])?),
        }
        for folder in folders.iter().filter(|_| is_away) {
            // A renewed tier has a directory in the place of this one, which nothing needs any more.
            let mended = match folder.exists() {
                true => fs::remove_dir_all(away(folder)),
                false => fs::rename(away(folder), folder),
            };
            mended.map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        Ok(())
    }

    /// Sometimes looks for damage before a move: everywhere, in a part, or twice at once, and may be killed.
    fn find_some_damage(&mut self) -> Done {
        let lane = format!("l{}", self.random.below(LANE_COUNT as u64));
        let scrubs: &[&[&str]] = match self.random.below(5) {
            0 => &[&["scrub"]],
            1 => &[&["scrub", &lane]],
            2 => &[&["scrub", "--subset", "1/2"], &["scrub", &lane]],
            _ => &[],
        };
        let mut runs = Vec::new();
        for words in scrubs {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let after = Duration::from_millis(self.random.below(60));
            let fate = if self.random.once_in(3) { Fate::Killed(after) } else { Fate::Lives };
            runs.push(self.place.start(&words, None, fate));
        }
        self.end_of(runs)
    }

    /// Waits for commands that may find that not all is well.
    fn end_of(&mut self, runs: Vec<Run>) -> Done {
        for ran in self.place.wait(runs) {
            self.counts.commands += 1;
            if !matches!(ran.code, None | Some(0 | 1)) || ran.err.contains("panicked") {
                return Err(format!("a command beside damage ended with {:?}: {}", ran.code, ran.err));
            }
        }
        Ok(())
    }

    /// Lets the rules want one replica for a while.
    fn want_one_replica(&mut self) -> Done {
        let file = self.place.root("store").join("terrace.toml");
        let rules = fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let fewer = rules.replacen("default = 2", "default = 1", 1);
        if fewer == rules {
            return Err(format!("no number of replicas in {rules}"));
        }
        fs::write(&file, fewer).map_err(|e| e.to_string())?;
        self.place.note("default = 1");
        self.must(&["sync"], &[0, 1])?;
        fs::write(&file, rules).map_err(|e| e.to_string())
    }

    /// Damages each piece of each file of a folder.
    fn damage_all_files(&mut self, folder: &Path) -> Done {
        for path in files_of(folder) {
            let damaged = damage_all_pieces(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            self.place.note(format!("{damaged} pieces damaged: {}", path.display()));
        }
        Ok(())
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
            1 => file.set_len(at).map(|()| format!("cut to {at}")),
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

    pub fn empty_target(&mut self) -> Done {
        // Of a tier's targets all are renewed together.
        let (tier, folder) = [ALL_TARGETS[0], ALL_TARGETS[3]][self.random.below(2) as usize];
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
            self.must(&["tiers", "renew", tier, "--force"], &[0, 1])?;
        }
        let mended = self.must(&["repair", "--json"], &[0, 1])?;
        for key in mended.json()["lost_of"].as_object().into_iter().flat_map(|lost| lost.keys()) {
            self.all_thin(std::slice::from_ref(key))?;
            self.must(&["rm", key], &[0])?;
            let lane = lane_of(key).ok_or("a key of no lane")?;
            self.model.apply(lane, &Change::Remove(key.clone()), Some(Loss::Processes));
        }
        self.model.note_thinned(false);
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
}

/// The distance of damaged bytes, which is less than the shortest frame.
const DAMAGE_STRIDE: usize = 16;

/// Changes a byte of each short piece of a file, and returns the number of them.
fn damage_all_pieces(path: &Path) -> std::io::Result<usize> {
    let mut bytes = fs::read(path)?;
    let damaged = bytes.iter_mut().step_by(DAMAGE_STRIDE).map(|byte| *byte ^= 0x55).count();
    // In place: a plain file is a link, too.
    File::options().write(true).open(path)?.write_all_at(&bytes, 0)?;
    Ok(damaged)
}
