//! Files that were removed while they were open: they are hidden until they are closed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use terrace_catalog::Edit;
use terrace_format::key;
use terrace_system::Locked;

use super::open::Open;
use super::{FileError, FileResult, Shared};
use crate::{Error, Store};

/// The folder of hidden files. The next component is the number of their keeper, the last one their own number.
const HIDDEN_FOLDER: &str = ".terrace/unlinked";

/// The keeper of this process's hidden files. It is alive as long as its file is locked.
pub struct Unlinked {
    number: u64,
    path: PathBuf,
    _locked: Locked,
}

impl Unlinked {
    /// Creates a keeper, after it has removed the files that dead keepers left.
    pub fn begin(store: &Store) -> FileResult<Unlinked> {
        let folder = store.dir().join("keepers");
        let context = || format!("making a lock in {}", folder.display());
        let number = store.engine.catalog.next_id()?;
        let path = folder.join(number.to_string());
        let new = folder.join(format!("{number}.new"));
        let make = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
            let locked = Locked::at_once(file)?.ok_or(io::ErrorKind::WouldBlock)?;
            // Locked before it has its name, so nobody sees it unlocked.
            fs::rename(&new, &path)?;
            Ok::<Locked, io::Error>(locked)
        };
        let locked = make().map_err(Error::io(context()))?;
        sweep(store, &folder)?;
        Ok(Unlinked { number, path, _locked: locked })
    }
}

impl Drop for Unlinked {
    fn drop(&mut self) {
        // If this fails, the next keeper finds the file unlocked and removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the hidden files of dead keepers.
fn sweep(store: &Store, folder: &std::path::Path) -> FileResult<()> {
    for (hidden, _) in store.list(HIDDEN_FOLDER.as_bytes(), None, usize::MAX)? {
        let text = key::show(&hidden);
        let keeper = text.split('/').nth(2).and_then(|number| number.parse::<u64>().ok());
        let lives = keeper.is_some_and(|number| {
            File::open(folder.join(number.to_string())).is_ok_and(|file| !matches!(Locked::at_once(file), Ok(Some(_))))
        });
        if !lives {
            match store.internal().remove(&hidden) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let new = entry.path().extension().is_some();
        if !new && matches!(File::open(entry.path()).and_then(Locked::at_once), Ok(Some(_))) {
            // If this fails, the file of a dead process stays, which does no harm: the next process tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl Shared {
    /// Returns the key under which an open file is hidden.
    pub(super) fn hidden(&self, id: u64) -> Vec<u8> {
        format!("{HIDDEN_FOLDER}/{}/{id}", self.unlinked.number).into_bytes()
    }

    /// Hides a file: `commit` gets the edit that renames it.
    pub fn unlink(&self, path: &[u8], id: u64, commit: impl FnOnce(Edit) -> FileResult<()>) -> FileResult<()> {
        let Some(open) = self.open.find(id) else {
            return stale_if_changed(path, commit(Edit::Remove { key: path.to_vec() }));
        };
        {
            let mut state = open.state.write();
            let hidden = self.hidden(id);
            stale_if_changed(path, commit(Edit::Rename { from: path.to_vec(), to: hidden.clone() }))?;
            (state.key, state.unlinked) = (hidden, true);
        }
        self.close_if_left(&open);
        Ok(())
    }

    /// Removes a hidden file whose last handle was closed just before it was hidden.
    fn close_if_left(&self, open: &Open) {
        if self.open.find(open.id).is_none() {
            // The thread that closed it may have removed it already. If this fails, the next keeper removes it.
            let _ = self.store.internal().remove(&self.hidden(open.id));
        }
    }
}

fn stale_if_changed(path: &[u8], result: FileResult<()>) -> FileResult<()> {
    match result {
        Err(FileError::Engine(Error::Conflict { .. } | Error::NotFound { .. })) => Err(FileError::stale(path)),
        other => other,
    }
}
