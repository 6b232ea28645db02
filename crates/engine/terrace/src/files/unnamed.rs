//! Files that get their name once they are complete.

use terrace_catalog::{Change, Edit, Expect, Kind};
use terrace_format::key;

use super::path::{check_new, parent};
use super::{File, FileError, FileResult, Files, Owner, Stat};

impl Files {
    /// Creates a file that nobody sees before [`Files::name`] gives it a name. If it gets none, it is removed when its last
    /// handle is closed, or by the next `Files` on the store if the process is killed.
    pub fn create_unnamed(&self, mode: u32, owner: Owner) -> FileResult<File> {
        let shared = &self.shared;
        let hidden = shared.hidden(shared.store.engine.catalog.next_id()?);
        let (id, edit) = shared.make(&hidden, &Stat::fresh(Kind::File, mode, owner))?;
        shared.commit(Change { expect: vec![Expect::Absent(hidden.clone())], edits: vec![edit] })?;
        let open = shared.open.enter(id, &hidden);
        open.state.write().unlinked = true;
        Ok(File::new(shared.clone(), open))
    }

    /// Gives a file without a name this name, with all bytes that were written to it, by one commit. An existing file of
    /// this name is replaced if `replace`.
    pub fn name(&self, file: &File, path: &[u8], replace: bool) -> FileResult<()> {
        let shared = &self.shared;
        file.flush()?;
        let _names = shared.names.lock();
        check_new(path)?;
        shared.directory(parent(path))?;
        let target = shared.find(path)?;
        match &target {
            Some(_) if !replace => return Err(FileError::Exists(key::show(path))),
            Some(target) if target.kind == Kind::Directory => return Err(FileError::IsDirectory(key::show(path))),
            _ => {}
        }
        let replaced = target.and_then(|target| target.id);
        // The usual order of locks: names, then files. No other thread that renames a file knows this one's number.
        let mut state = file.open.state.write();
        if !state.unlinked {
            return Err(FileError::Invalid {
                path: key::show(path),
                reason: "the file has a name already; rename it instead",
            });
        }
        let hidden = state.key.clone();
        let free = match replaced {
            Some(old) => Expect::Names(path.to_vec(), old),
            None => Expect::Absent(path.to_vec()),
        };
        let expect = vec![Expect::Names(hidden.clone(), file.open.id), Expect::Free(path.to_vec()), free];
        let go = |gone: Option<Edit>| {
            let named = Edit::Rename { from: hidden.clone(), to: path.to_vec() };
            let edits = [gone, Some(named), shared.touch(parent(path))?].into_iter().flatten().collect();
            shared.commit(Change { expect, edits })
        };
        match replaced {
            // The replaced file is hidden, because processes that have it open keep using it.
            Some(old) if shared.open.find(old).is_some() => shared.unlink(path, old, |gone| go(Some(gone)))?,
            _ => go(None).map_err(|error| match error {
                FileError::Engine(crate::Error::Conflict { .. }) if replaced.is_none() => {
                    FileError::Exists(key::show(path))
                }
                other => other,
            })?,
        }
        (state.key, state.unlinked) = (path.to_vec(), false);
        shared.store.engine.mover.note_rename(&hidden, path);
        Ok(())
    }
}
