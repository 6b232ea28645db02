//! Faults between commands, and what must be there afterwards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::checker::Checker;
use super::model::Loss;
use super::place::Fate;

/// The faults that may happen while no command runs.
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
    /// Copies of the log are damaged.
    LogCopies,
}

/// Where the first opener after a restart of the machine may be told to die.
const RECOVERY_POINTS: [&str; 3] = ["recover:replayed", "recover:owed", "recover:named"];

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
            Fault::LogCopies => self.damage_log_copies(),
        }
    }

    fn reboot(&mut self) -> Done {
        self.place.reboot();
        self.open_first()?;
        self.look(Loss::Power)?;
        self.model.forget_replicas();
        self.read(Loss::Power)?;
        self.settle()
    }

    /// The first command after a restart of the machine, which sometimes dies while it brings the store in line.
    pub fn open_first(&mut self) -> Done {
        if !self.random.once_in(3) {
            return Ok(());
        }
        let point = *self.random.pick(&RECOVERY_POINTS);
        let run = self.place.start(&["ls".to_owned()], None, Fate::FailPoint(format!("{point}@1")));
        let ran = self.place.wait(vec![run]).remove(0);
        self.counts.commands += 1;
        match ran.code {
            None => *self.counts.fail_points.entry(point.to_owned()).or_default() += 1,
            Some(0) => {}
            code => return Err(format!("the first `ls` ended with {code:?}: {}", ran.err)),
        }
        Ok(())
    }

    /// Makes all that is owed; then nothing is bad, and a new catalog tells the same.
    pub fn settle(&mut self) -> Done {
        self.must(&["sync"], &[0])?;
        self.model.synced();
        self.must(&["scrub"], &[0])?;
        self.compare_log_copies()?;
        if self.random.once_in(3) {
            self.must(&["rebuild"], &[0])?;
        }
        let status = self.must(&["status", "--json"], &[0])?.json();
        if status["owed"] != 0 {
            return Err(format!("something is owed after a sync: {status}"));
        }
        self.look_at_plain_files()?;
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
