//! Faults between commands, and what must be there afterwards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::checker::Checker;
use super::model::Loss;

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

pub type Done = Result<(), String>;

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
}

/// All files below a folder.
pub fn files_of(folder: &Path) -> Vec<PathBuf> {
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
