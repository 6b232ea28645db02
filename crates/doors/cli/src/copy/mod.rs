//! Copies between files and the store.

mod adopt;
mod cat;
mod check;
mod file_number;
mod filter;
mod get;
mod get_options;
mod getter;
mod out_folder;
mod put;
mod put_options;
mod put_progress;
mod restore;
mod source_file;
mod special;
mod tree;
mod unchanged;

pub use cat::cat;
pub use check::{check, same_bytes};
pub use file_number::{FileNumber, SAME_NAME, find_alike, find_shared, is_listed};
pub use filter::Filter;
pub use get::get;
pub use get_options::Get;
pub use out_folder::OutFolder;
pub use put::{adopt, put};
pub use put_options::Put;
pub use restore::{NotRestored, has_mode_and_time};
pub use source_file::FileChanges;
pub use special::{write_directory, write_link};
pub use tree::{Item, Skipped, Tree};

use anyhow::Result;
use terrace::Store;
use terrace::report::Replaced;

use crate::output::{count, note};

/// Reports the replicas that reads could not use and that were replaced.
fn tell_repaired(store: &Store) -> Result<()> {
    replaced_words(store.repair_suspects()?).iter().for_each(|words| note(words));
    Ok(())
}

/// Describes them, a line for each kind.
fn replaced_words(replaced: Replaced) -> Vec<String> {
    let mut lines = Vec::new();
    if replaced.damaged > 0 {
        lines.push(format!("{} found and repaired", count(replaced.damaged, "damaged replica")));
    }
    if replaced.changed > 0 {
        lines.push(format!(
            "{} in adopted files that their owners have changed; the objects keep what was adopted, in files of the store",
            count(replaced.changed, "replica")
        ));
    }
    lines
}
