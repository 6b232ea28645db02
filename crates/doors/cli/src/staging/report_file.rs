//! The file of a report.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use terrace::{OwnPlaces, Store, real_path, replace_durably};

use crate::output::path_name;

/// A file that a report may replace.
pub struct ReportFile(PathBuf);

impl ReportFile {
    /// Checks that the path is free, or a regular file that is not the store's own. Follows links.
    pub fn at(store: &Store, path: &Path) -> Result<ReportFile> {
        let real = real_path(path);
        let check = || match fs::metadata(&real) {
            Ok(found) if !found.is_file() => bail!("it is no regular file, and would be replaced; name a file"),
            _ => Ok(OwnPlaces::of(store).check(&real)?),
        };
        check().with_context(|| format!("writing the report to {}", path_name(path)))?;
        Ok(ReportFile(real))
    }

    /// Checks that this is not another file of the same command.
    pub fn check_apart(&self, other: &Path, what: &str) -> Result<()> {
        match real_path(other) == self.0 {
            true => bail!("the report would replace {}, {what}; give it another name", path_name(other)),
            false => Ok(()),
        }
    }

    /// Returns whether there is a file that the report replaces.
    pub fn is_there(&self) -> bool {
        self.0.exists()
    }

    /// Returns whether a path ends with the same name, so that it may be the same file.
    pub fn has_name_of(&self, other: &Path) -> bool {
        self.0.file_name() == other.file_name()
    }

    /// Writes a report, whole and durably.
    pub fn write(&self, report: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(report)?;
        replace_durably(&self.0, text).with_context(|| format!("writing {}", path_name(&self.0)))
    }
}
