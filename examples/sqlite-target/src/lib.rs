//! A kind of target that is not part of Terrace: one SQLite file, with a row for each frame.
//!
//! ```toml
//! [[tier]]
//! name = "database"
//! kind = "sqlite"
//! targets = ["/mnt/a/frames.sqlite"]
//! options = { page_size = 16384 }
//! ```

mod database;
mod map;

pub use map::SqliteMap;

use terrace::tier::{KindError, MapKind, register_kind};

/// Registers `kind = "sqlite"`.
///
/// # Errors
/// [`KindError::Taken`] if it was called before.
pub fn register() -> Result<(), KindError> {
    register_kind("sqlite", MapKind::<SqliteMap>::default())
}
