//! An oracle that really runs every encoding on every piece of every file, to compare choices with.

mod btune;
mod contest;
mod files;
mod planned;
mod table;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};

pub use contest::{Mode, Outcomes};
pub use files::{File, files};
pub use planned::weighed;
pub use table::{Cost, Table, measure};

/// The size of a piece. The oracle encodes one piece at a time.
pub const PIECE_BYTES: usize = 256 << 10;

/// Files, and the cost of each encoding on each of their pieces.
pub struct Oracle {
    /// The files.
    pub files: Vec<File>,
    /// The costs.
    pub table: Table,
}

impl Oracle {
    /// Makes the oracle of the files in the folders of `TERRACE_DATA`; `None` if that is not set. Running every
    /// encoding takes minutes, so the costs are kept in the file that `TERRACE_ORACLE` names, if it names one.
    pub fn get() -> Result<Option<&'static Oracle>> {
        static LOADED_ORACLE: OnceLock<Oracle> = OnceLock::new();
        if let Some(oracle) = LOADED_ORACLE.get() {
            return Ok(Some(oracle));
        }
        let Some(root) = std::env::var_os("TERRACE_DATA") else {
            eprintln!("skipped: TERRACE_DATA names no folder of files");
            return Ok(None);
        };
        let files = files::files(Path::new(&root)).with_context(|| format!("reading {}", root.display()))?;
        let kept = std::env::var_os("TERRACE_ORACLE").map(PathBuf::from);
        let table = Table::of(&files, kept.as_deref())?;
        Ok(Some(LOADED_ORACLE.get_or_init(|| Oracle { files, table })))
    }
}
