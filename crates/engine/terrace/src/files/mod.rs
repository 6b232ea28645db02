//! [`Files`]: objects as a tree of files with POSIX semantics.
//!
//! An object's key is its path. A directory may be an object. After a `put` it is none, and exists only as a prefix of longer keys;
//! it becomes an object when an entry in it changes, so that it stays when it becomes empty.
//!
//! **Writes are buffered**, up to 16 MiB for each open file, while no other process of the machine has it open and the tiers have room
//! for them. They reach the store when a block (1 MiB) is complete, when the
//! buffer is full, after five seconds, when a [`File`] is flushed or closed (*placed*), and when it is synced (*durable*).
//! Users of the same `Files` see buffered bytes at once, other processes when they have reached the store: at the latest when they open
//! the file. If a process is
//! killed, its buffered bytes are lost, as those in the page cache are lost when the machine crashes. Writes of a block or more
//! go to the store at once; those of [`File::write_behind`] just after they have been accepted.
//!
//! **Appended bytes get their offset when they reach the store** ([`File::append`]), so they overwrite nothing that other
//! processes have appended. While other processes have the store open, appended bytes are not buffered.
//!
//! **A file that is removed or replaced while it is open** is kept under `.terrace/unlinked/` until it is closed. If a
//! process is killed, the next `Files` on the store removes its files there.
//!
//! **Other processes** may remove, replace or rename a file that is open here. Then it is stale ([`FileError::Stale`]).
//!
//! **Missing**: hard links. The root's attributes are not stored. A directory is renamed by one commit that names every key
//! below it.

mod ahead;
mod asked;
mod at_end;
mod dirty;
mod error;
mod flush;
mod handle;
mod holes;
mod names;
mod open;
mod open_state;
mod others;
mod pairs;
mod path;
mod rename;
mod space;
mod spare;
mod stat;
mod unlinked;
mod unnamed;

pub use error::{FileError, FileResult};
pub use handle::File;
pub use pairs::Presence;
pub use space::FileSpace;
pub use stat::{DIRECTORY_MODE, Owner, Setting, Special, Stat};

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ahead::Ahead;
use open::OpenFiles;
use others::Others;
use rustix_futex_sync::Mutex;
use terrace_catalog::{Change, Child, Edit, Expect, Kind, Object};
use terrace_format::key;
use terrace_system::clock::unix_nanos;
use unlinked::Unlinked;

use crate::{Error, PutOptions, Store};

/// Objects as a tree of files. Cheap to clone; clones share open files and buffered bytes.
///
/// ```
/// use terrace::files::{Files, Owner};
/// # use terrace::{Config, Store};
///
/// # let temporary = tempfile::tempdir()?;
/// # let dir = temporary.path();
/// # let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n", dir.display());
/// # let store = Store::init(&dir.join("store"), &Config::parse(&config, "example")?)?;
/// let files = Files::new(&store)?;
/// let file = files.create(b"notes", 0o644, Owner { uid: 1000, gid: 1000 }, true)?;
/// file.write_at(0, b"first words")?;
/// assert_eq!(files.stat(b"notes")?.length, 11);
/// file.flush()?;
/// assert_eq!(store.get(b"notes")?, b"first words");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Files {
    shared: Arc<Shared>,
}

struct Shared {
    // Dropped before the store: its threads use it.
    ahead: Ahead,
    store: Store,
    /// The options for writing files.
    options: PutOptions,
    /// The owner of files without a recorded owner: the store's owner.
    owner: Owner,
    /// The attributes of the root, which is not an object. A leaf, held for one copy or replacement.
    root: Mutex<Stat>,
    /// Held while names change, from the check to the commit, so that the checked state still holds. Taken before the lock of
    /// any file (`Open::state`), never under one. `root` may be taken under it.
    names: Mutex<()>,
    open: OpenFiles,
    /// The number of buffered bytes of all files.
    kept: AtomicUsize,
    unlinked: Unlinked,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without the directory's path.
    pub name: Vec<u8>,
    /// The object's number. None for a directory that exists only as a prefix of keys.
    pub id: Option<u64>,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The kind of special file, if it is one.
    pub special: Option<Special>,
}

impl Files {
    /// Opens the files of a store, and removes files that killed processes had hidden.
    pub fn new(store: &Store) -> FileResult<Files> {
        Files::with(store, PutOptions::default())
    }

    /// Like [`Files::new`], but files are written with these options.
    pub fn with(store: &Store, options: PutOptions) -> FileResult<Files> {
        options.check_for(&store.engine.tiers)?;
        let owner = store.owner()?;
        let shared = Arc::new(Shared {
            ahead: Ahead::default(),
            store: store.clone(),
            options,
            owner,
            root: Mutex::new(Stat::implied(owner, unix_nanos())),
            names: Mutex::new(()),
            open: OpenFiles::new(store.engine.writer.block_bytes, Others::open(store.dir())?),
            kept: AtomicUsize::new(0),
            unlinked: Unlinked::begin(store)?,
        });
        flush::start_timed_flush(&shared)?;
        Ok(Files { shared })
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns the attributes of a file, a directory or a symbolic link. The empty path is the root.
    pub fn stat(&self, path: &[u8]) -> FileResult<Stat> {
        path::check(path)?;
        self.shared.refresh(path)?;
        let found = self.shared.find(path)?.ok_or_else(|| self.shared.missing(path))?;
        self.shared.with_kept(found)
    }

    /// Returns up to `limit` names in a directory, from position `from` on (empty for the beginning), and the position of
    /// the next name, or none at the end. A directory that exists only as a prefix of keys may be out of order.
    pub fn list(&self, path: &[u8], from: &[u8], limit: usize) -> FileResult<(Vec<Entry>, Option<Vec<u8>>)> {
        self.shared.refresh(path)?;
        self.shared.directory(path)?;
        // Only once for all pages.
        if from.is_empty() {
            self.shared.store.engine.origins.refresh_folder(path)?;
        }
        let (children, next) = self.shared.store.engine.catalog.children(path, from, limit)?;
        let entry = |child: Child| Entry {
            id: child.object.as_ref().map(|object| object.id),
            special: child.object.as_ref().and_then(|object| Special::of(&object.attributes)),
            kind: child.object.map_or(Kind::Directory, |object| object.attributes.kind),
            name: child.name,
        };
        let kept = children.into_iter().filter(|child| !path.is_empty() || child.name != key::RESERVED_FOLDER);
        Ok((kept.map(entry).collect(), next))
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> FileResult<Vec<u8>> {
        match self.stat(path)?.kind {
            Kind::Symlink => Ok(self.shared.store.get(path)?),
            _ => Err(FileError::Invalid { path: key::show(path), reason: "it is not a symbolic link" }),
        }
    }

    /// Changes the attributes of a file, a directory or a symbolic link.
    pub fn set(&self, path: &[u8], setting: &Setting) -> FileResult<Stat> {
        let stat = self.stat(path)?;
        if let Some(file) = stat.id.and_then(|id| self.opened(id)) {
            return file.set(setting);
        }
        self.shared.set(path, stat.id, setting)
    }

    /// Writes the buffered bytes of all files, and makes everything durable.
    pub fn sync(&self) -> FileResult<()> {
        self.flush()?;
        self.shared.store.sync()?;
        Ok(())
    }
}

impl Store {
    /// Returns the owner of the store's directory, who also owns objects without a recorded owner.
    pub fn owner(&self) -> crate::Result<Owner> {
        let metadata = std::fs::metadata(self.dir()).map_err(Error::io(self.dir().display().to_string()))?;
        Ok(Owner::of(&metadata))
    }
}

impl Files {
    /// Checks that the file at a path may be written, for callers that open it to write. Files of origins are read-only.
    pub fn check_writable(&self, path: &[u8]) -> FileResult<()> {
        self.shared.check_writable(path)
    }

    /// Makes changes of names and attributes and flushed bytes of files durable. Does not wait for pending replicas.
    pub fn sync_names(&self) -> FileResult<()> {
        self.shared.store.engine.journal.sync_files()?;
        Ok(())
    }
}

impl Shared {
    /// Catches up, and asks the origin of a path for it, if it has one. Called without any lock, because it may take long.
    fn refresh(&self, path: &[u8]) -> FileResult<()> {
        self.store.catch_up()?;
        let origins = &self.store.engine.origins;
        if origins.heed() {
            origins.refresh(path)?;
        }
        Ok(())
    }

    fn object(&self, path: &[u8]) -> FileResult<Option<Object>> {
        Ok(self.store.engine.catalog.object(path)?)
    }

    /// Checks that a file does not belong to an origin.
    pub(super) fn check_writable(&self, key: &[u8]) -> FileResult<()> {
        Ok(self.store.engine.origins.check_changeable(key)?)
    }

    /// Returns the attributes of a path, as the store has them.
    fn find(&self, path: &[u8]) -> FileResult<Option<Stat>> {
        if path.is_empty() {
            return Ok(Some(self.root.lock().clone()));
        }
        if let Some(object) = self.object(path)? {
            return Ok(Some(Stat::of(&object, self.owner)));
        }
        let implied = self.store.engine.catalog.holds_any(path)?;
        // No lock of `root` is held here: see its field.
        Ok(implied.then(|| Stat::implied(self.owner, self.root.lock().modified)))
    }

    /// Returns the error for a path that does not exist. It depends on the directories above.
    fn missing(&self, path: &[u8]) -> FileError {
        match self.find(path::parent(path)) {
            Err(error) => error,
            Ok(Some(stat)) if stat.kind != Kind::Directory => FileError::NotDirectory(key::show(path::parent(path))),
            Ok(Some(_)) => FileError::not_found(path),
            Ok(None) => self.missing(path::parent(path)),
        }
    }

    /// Returns the attributes of a directory, or an error if the path is not one.
    fn directory(&self, path: &[u8]) -> FileResult<Stat> {
        path::check(path)?;
        match self.find(path)? {
            Some(stat) if stat.kind == Kind::Directory => Ok(stat),
            Some(_) => Err(FileError::NotDirectory(key::show(path))),
            None => Err(self.missing(path)),
        }
    }

    /// Adds the effect of buffered bytes to these attributes.
    fn with_kept(&self, stat: Stat) -> FileResult<Stat> {
        let Some(open) = stat.id.and_then(|id| self.open.find(id)) else { return Ok(stat) };
        let state = open.state.read();
        // Buffered bytes may have reached the store since `stat` was read.
        let object = self.object(&state.key)?.filter(|object| object.id == open.id);
        let mut stat = object.map_or(stat, |object| Stat::of(&object, self.owner));
        state.show(&mut stat);
        Ok(stat)
    }

    /// Changes the attributes of an object that is not open.
    fn set(&self, path: &[u8], id: Option<u64>, setting: &Setting) -> FileResult<Stat> {
        if path.is_empty() {
            let mut root = self.root.lock();
            setting.apply(&mut root);
            return Ok(root.clone());
        }
        let object = self.object(path)?.filter(|object| Some(object.id) == id);
        let mut stat = match (&object, id) {
            (Some(object), _) => Stat::of(object, self.owner),
            (None, None) => self.directory(path)?,
            (None, Some(_)) => return Err(FileError::stale(path)),
        };
        setting.apply(&mut stat);
        let (expect, edit) = match object {
            Some(object) => {
                let attributes = stat.attributes(object.attributes.user, self.owner);
                (Expect::Names(path.to_vec(), object.id), Edit::SetAttributes { key: path.to_vec(), attributes })
            }
            None => (Expect::Absent(path.to_vec()), self.make(path, &stat)?.1),
        };
        self.commit(Change { expect: vec![expect], edits: vec![edit] })?;
        Ok(stat)
    }

    /// Returns the number of a new object, and the edit that creates it.
    fn make(&self, path: &[u8], stat: &Stat) -> FileResult<(u64, Edit)> {
        let engine = &self.store.engine;
        let object = engine.catalog.next_id()?;
        let mut attributes = stat.attributes(Default::default(), self.owner);
        let asked = self.ask_as_directory(path, &mut attributes)?;
        let want = engine.planning.policy(path, &asked).wanted.replicas;
        let (extents, staged) = (Vec::new(), false);
        Ok((object, Edit::Put { key: path.to_vec(), object, length: 0, want, attributes, staged, extents }))
    }

    fn commit(&self, change: Change) -> FileResult<()> {
        if self.store.engine.origins.is_any() {
            change.edits.iter().flat_map(keys_of).try_for_each(|key| self.check_writable(key))?;
        }
        self.store.engine.catalog.commit(change)?;
        Ok(())
    }
}

/// Returns the keys that an edit of names, attributes or bytes changes.
fn keys_of(edit: &Edit) -> impl Iterator<Item = &[u8]> {
    let (first, second) = match edit {
        Edit::Put { key, .. }
        | Edit::Write { key, .. }
        | Edit::SetLength { key, .. }
        | Edit::SetAttributes { key, .. }
        | Edit::Remove { key }
        | Edit::Clear { key, .. } => (Some(key), None),
        Edit::Rename { from, to } => (Some(from), Some(to)),
        _ => (None, None),
    };
    first.into_iter().chain(second).map(Vec::as_slice)
}
