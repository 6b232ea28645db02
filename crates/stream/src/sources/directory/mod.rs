//! A watched directory: what is dropped there flows on under the same names, and is removed once it is safe.
//!
//! A file is taken when it was closed or renamed into its place, or when it has not changed for a while. It is pulled in parts, each for its own
//! offset, so that it may be begun with again at any time. When all of it is durable where it went, and it is still the same file,
//! this is recorded in the store, then the file is removed, then the record. Files whose names begin with a dot are not taken: that is
//! what those that are not complete are called.

mod look;
mod record;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix_futex_sync::Mutex;
use terrace::{Attributes, Store};

use crate::control::Control;
use crate::entry::{Entry, Position};
use crate::request::{Name, Place, Request};
use crate::{Error, Pulled, Result, Source};
use look::Look;
use record::Records;

/// Bytes that are pulled as one request.
const PART: u64 = 1 << 20;

/// Which file it is, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Nanoseconds since 1970.
    modified: i128,
}

impl Identity {
    fn of(metadata: &fs::Metadata) -> Identity {
        let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Identity { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), modified }
    }
}

/// A directory as a source.
pub struct Directory {
    root: PathBuf,
    number: usize,
    control: Arc<Control>,
    records: Records,
    look: Look,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Files that are to be pulled, or the rest of them.
    queue: VecDeque<Part>,
    /// Files that were pulled, wholly or in part, and are not done.
    open: BTreeMap<Name, Open>,
    next: u64,
}

struct Part {
    name: Name,
    file: File,
    attributes: Arc<Attributes>,
    offset: u64,
}

struct Open {
    identity: Identity,
    /// Parts that are not done.
    left: u64,
}

fn parts(size: u64) -> u64 {
    size.div_ceil(PART).max(1)
}

impl Directory {
    /// The directory `root` as source number `number` of stream `stream`. A file that nobody is seen to close is taken when it has not
    /// changed for `settled`.
    pub fn new(
        store: &Store,
        stream: &str,
        root: &Path,
        settled: Duration,
        number: usize,
        control: &Arc<Control>,
    ) -> Result<Directory> {
        let root = fs::canonicalize(root).map_err(Error::io(format!("opening {}", root.display())))?;
        let look = Look::new(&root, settled)?;
        let directory = Directory {
            records: Records::new(store, stream, &root),
            look,
            root,
            number,
            control: control.clone(),
            state: Mutex::default(),
        };
        directory.remove_recorded()?;
        Ok(directory)
    }

    /// Removes what an earlier run has seen to be safe and did not get to remove.
    fn remove_recorded(&self) -> Result<()> {
        for (name, identity) in self.records.all()? {
            if self.identity(&name)? == Some(identity) {
                self.unlink(&name)?;
            }
            self.records.remove(&name)?;
        }
        Ok(())
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(name))
    }

    fn identity(&self, name: &[u8]) -> Result<Option<Identity>> {
        let path = self.path(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(metadata.is_file().then(|| Identity::of(&metadata))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(format!("looking at {}", path.display()))(e)),
        }
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("removing {}, which is safe,", path.display()))(e))
            }
            _ => Ok(()),
        }
    }

    /// Begins with a file, from its first byte. One that is gone is passed over.
    fn begin(&self, state: &mut State, name: &Name, first: bool) -> Result<()> {
        let path = self.path(name);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            Ok(opened) => opened,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                state.open.remove(name);
                return Ok(());
            }
            Err(e) => return Err(Error::io(format!("opening {}", path.display()))(e)),
        };
        let identity = Identity::of(&metadata);
        state.queue.retain(|part| part.name != *name);
        state.open.insert(name.clone(), Open { identity, left: parts(identity.size) });
        let attributes = Arc::new(Attributes::of(&metadata));
        let part = Part { name: name.clone(), file, attributes, offset: 0 };
        if first {
            state.queue.push_front(part)
        } else {
            state.queue.push_back(part)
        }
        Ok(())
    }

    /// Queues files that have become complete.
    fn find(&self, state: &mut State) -> Result<()> {
        for name in self.look.complete(|name| state.open.contains_key(name)) {
            self.begin(state, &name, false)?;
        }
        Ok(())
    }

    /// The next part of the first file.
    fn part(&self, state: &mut State) -> Result<Option<Entry>> {
        let Some(part) = state.queue.front_mut() else { return Ok(None) };
        let (name, attributes, offset) = (part.name.clone(), part.attributes.clone(), part.offset);
        let size = state.open.get(&name).map_or(0, |open| open.identity.size);
        let mut bytes = vec![0; (size - offset.min(size)).min(PART) as usize];
        match part.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            // It has become shorter, and is begun with again when it is found to be another file.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(e) => return Err(Error::io(format!("reading {}", self.path(&name).display()))(e)),
        }
        part.offset += bytes.len() as u64;
        let ends = part.offset >= size;
        if ends {
            state.queue.pop_front();
        }
        state.next += 1;
        let position = Position(state.next, 0);
        let request = Request { destination: name, place: Place::At(offset), bytes: Bytes::from(bytes), ends };
        Ok(Some(Entry { request, source: self.number, position, file: Some(attributes) }))
    }

    /// All of a file is durable where it went.
    fn safe(&self, state: &mut State, name: &Name) -> Result<()> {
        let Some(open) = state.open.remove(name) else { return Ok(()) };
        if self.identity(name)? != Some(open.identity) {
            // It has changed since; the new one is found again.
            self.look.changed(name);
            return Ok(());
        }
        self.records.add(name, open.identity)?;
        terrace::fail::point("stream:recorded");
        self.unlink(name)?;
        terrace::fail::point("stream:unlinked");
        self.records.remove(name)
    }
}

impl Source for Directory {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        let mut state = self.state.lock();
        if state.queue.is_empty() {
            self.find(&mut state)?;
        }
        let (mut pulled, mut bytes) = (Vec::new(), 0);
        while bytes < budget
            && let Some(entry) = self.part(&mut state)?
        {
            bytes += entry.request.bytes.len();
            pulled.push(entry);
        }
        Ok(match pulled.is_empty() {
            false => Pulled::Moves(pulled),
            true if self.control.drains() && !self.look.any_left() => Pulled::End,
            true => Pulled::Nothing,
        })
    }

    fn wait(&self, limit: Duration) {
        self.look.wait(limit);
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock();
        for entry in moves {
            let name = entry.request.destination;
            let Some(open) = state.open.get_mut(&name) else { continue };
            open.left = open.left.saturating_sub(1);
            if open.left == 0 {
                self.safe(&mut state, &name)?;
            }
        }
        Ok(())
    }

    fn again(&self, name: &Name) -> Result<()> {
        let mut state = self.state.lock();
        match state.open.contains_key(name) {
            true => self.begin(&mut state, name, true),
            false => Ok(()),
        }
    }
}
