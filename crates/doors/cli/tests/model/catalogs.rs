//! Faults of the catalog: its files, and the mark that says whether it can be trusted.

use std::fs::{self, File};

use super::checker::Checker;
use super::faults::Done;
use super::model::Loss;

impl Checker {
    pub fn lose_catalog(&mut self) -> Done {
        let catalog = self.place.root("store/catalog");
        let lost = match self.random.below(2) {
            0 => fs::remove_dir_all(&catalog),
            _ => fs::remove_file(catalog.join("data.mdb")),
        };
        lost.map_err(|e| e.to_string())?;
        self.rebuilt(Loss::Processes)
    }

    pub fn cut_catalog(&mut self) -> Done {
        let data = self.place.root("store/catalog/data.mdb");
        let length = fs::metadata(&data).map_err(|e| e.to_string())?.len();
        let at = self.random.below(length);
        self.place.note(format!("data.mdb is cut from {length} to {at}"));
        File::options().write(true).open(&data).and_then(|file| file.set_len(at)).map_err(|e| e.to_string())?;
        self.rebuilt(Loss::Processes)
    }

    /// Losses other than the log are repaired, automatically or on request.
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

    pub fn lose_boot_mark(&mut self) -> Done {
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
}
