//! Datasets' views as files, under `.views/DATASET/VIEW`.
//!
//! A view is as long as what it shows: like a device it cannot be cut or extended, and what goes beyond its end is not written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, Notifier};
use parking_lot::{Mutex, RwLock};
use terrace::Files;
use terrace_datasets::{Dataset, Datasets, Error, View};

use crate::handles::Handles;
use crate::nodes::ROOT;

/// Their directory in the root.
pub const NAME: &str = ".views";
/// The number of that directory; those of all below come after it.
const FOLDER: u64 = 1 << 62;

/// Datasets' views as files.
pub struct Views {
    files: Files,
    datasets: Datasets,
    known: RwLock<Known>,
    open: Handles<Opened>,
    stale: Mutex<Option<Sender<u64>>>,
}

/// What has a number.
#[derive(Default)]
struct Known {
    nodes: Vec<Node>,
    numbers: HashMap<(String, Option<String>), u64>,
}

/// A dataset's directory, or one of its views.
#[derive(Clone)]
struct Node {
    dataset: Dataset,
    view: Option<String>,
}

/// An open view.
pub struct Opened {
    number: u64,
    view: View,
}

type Answer<T> = Result<T, Errno>;

/// Whether a number is that of something here.
pub fn is(number: u64) -> bool {
    number >> 62 == 1
}

/// Whether a name in a directory is that of all views.
pub fn is_folder(parent: u64, name: &[u8]) -> bool {
    parent == ROOT && name == NAME.as_bytes()
}

impl Views {
    pub fn new(files: &Files) -> Views {
        let datasets = Datasets::new(files.store());
        Views {
            files: files.clone(),
            datasets,
            known: RwLock::default(),
            open: Handles::default(),
            stale: Mutex::new(None),
        }
    }

    /// From now on the kernel is told what of its mapped pages is no longer so. That is done by a thread of its own: within a
    /// request the kernel would wait for itself.
    pub fn tell(&self, notifier: Notifier) -> std::io::Result<()> {
        let (sender, receiver) = channel::<u64>();
        let run = move || {
            while let Ok(number) = receiver.recv() {
                // What the kernel does not know it need not forget.
                let _ = notifier.inval_inode(INodeNo(number), 0, 0);
            }
        };
        std::thread::Builder::new().name("terrace-views".into()).spawn(run)?;
        *self.stale.lock() = Some(sender);
        Ok(())
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.datasets.list().is_ok_and(|names| !names.is_empty())
    }

    /// The number and the attributes of a name.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Answer<FileAttr> {
        if parent == ROOT {
            return self.attributes(FOLDER);
        }
        let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let node = match parent {
            FOLDER => Node { dataset: said(self.datasets.open(name))?, view: None },
            parent => {
                let Node { dataset, view: None } = self.node(parent)? else { return Err(Errno::ENOTDIR) };
                said(dataset.view(name))?;
                Node { dataset, view: Some(name.to_owned()) }
            }
        };
        self.attributes(self.number(node))
    }

    fn number(&self, node: Node) -> u64 {
        let mut known = self.known.write();
        let key = (node.dataset.name().to_owned(), node.view.clone());
        if let Some(number) = known.numbers.get(&key) {
            return *number;
        }
        known.nodes.push(node);
        let number = FOLDER + known.nodes.len() as u64;
        known.numbers.insert(key, number);
        number
    }

    fn node(&self, number: u64) -> Answer<Node> {
        let at = number.checked_sub(FOLDER + 1).ok_or(Errno::EISDIR)?;
        self.known.read().nodes.get(at as usize).cloned().ok_or(Errno::ESTALE)
    }

    /// What a number is like.
    pub fn attributes(&self, number: u64) -> Answer<FileAttr> {
        let root = self.files.stat(b"").map_err(|error| Errno::from_i32(error.errno()))?;
        let directory = |modified| (FileType::Directory, 0o555, 0, modified);
        let (kind, perm, size, modified) = match number {
            FOLDER => directory(root.modified),
            number => {
                let node = self.node(number)?;
                let modified = said(node.dataset.modified())?;
                match node.view {
                    None => directory(modified),
                    Some(name) => {
                        let view = said(node.dataset.view(&name))?;
                        let perm = if said(view.is_read_only())? { 0o444 } else { 0o644 };
                        (FileType::RegularFile, perm, said(view.length())?, modified)
                    }
                }
            }
        };
        let time = UNIX_EPOCH + Duration::from_nanos(modified.max(0).unsigned_abs());
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: root.owner.uid,
            gid: root.owner.gid,
            rdev: 0,
            blksize: 1 << 20,
            flags: 0,
        })
    }

    /// The names in a directory, with their numbers and kinds.
    pub fn list(&self, number: u64) -> Answer<Vec<(u64, FileType, Vec<u8>)>> {
        let dots = [(number, FileType::Directory, b".".to_vec()), (number, FileType::Directory, b"..".to_vec())];
        let mut all = Vec::from(dots);
        if number == FOLDER {
            for name in said(self.datasets.list())? {
                let dataset = said(self.datasets.open(&name))?;
                all.push((self.number(Node { dataset, view: None }), FileType::Directory, name.into_bytes()));
            }
            return Ok(all);
        }
        let node = self.node(number)?;
        for name in said(node.dataset.views())? {
            let view = Node { dataset: node.dataset.clone(), view: Some(name.clone()) };
            all.push((self.number(view), FileType::RegularFile, name.into_bytes()));
        }
        Ok(all)
    }

    /// Opens a view.
    pub fn open(&self, number: u64) -> Answer<u64> {
        let Node { dataset, view: Some(name) } = self.node(number)? else { return Err(Errno::EISDIR) };
        let view = said(dataset.view(&name))?;
        Ok(self.open.keep(Opened { number, view }))
    }

    fn opened(&self, handle: u64) -> Answer<Arc<Opened>> {
        self.open.get(handle).ok_or(Errno::EBADF)
    }

    /// Reads; the bytes read.
    pub fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        said(self.opened(handle)?.view.read_at(offset, out))
    }

    /// Writes what lies before the end; the bytes written.
    pub fn write(&self, handle: u64, offset: u64, bytes: &[u8]) -> Answer<usize> {
        let opened = self.opened(handle)?;
        let room = said(opened.view.length())?.saturating_sub(offset);
        let fits = bytes.get(..room.min(bytes.len() as u64) as usize).unwrap_or_default();
        if fits.is_empty() && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        said(opened.view.write_at(offset, fits))?;
        self.outdated(&opened);
        Ok(fits.len())
    }

    /// Other views of the dataset that are open show other bytes now.
    fn outdated(&self, written: &Opened) {
        let Some(sender) = self.stale.lock().clone() else { return };
        let dataset = written.view.dataset().name();
        for other in self.open.all() {
            if other.number != written.number && other.view.dataset().name() == dataset {
                // Where nobody listens any more, nothing is mapped.
                let _ = sender.send(other.number);
            }
        }
    }

    /// A file is closed: replicas follow that wait for this.
    pub fn flush(&self, handle: u64) -> Answer<()> {
        said(self.opened(handle)?.view.close())
    }

    /// Makes what was written durable.
    pub fn sync(&self, handle: u64) -> Answer<()> {
        self.flush(handle)?;
        self.files.sync_names().map_err(|error| Errno::from_i32(error.errno()))
    }

    /// A file is no longer used.
    pub fn release(&self, handle: u64) {
        drop(self.open.give_up(handle));
    }

    /// Cutting a view does nothing, as programs do that before they write; extending it cannot be.
    pub fn set_size(&self, number: u64, size: Option<u64>) -> Answer<FileAttr> {
        let attributes = self.attributes(number)?;
        match size.is_some_and(|size| size > attributes.size) {
            true => Err(Errno::EFBIG),
            false => Ok(attributes),
        }
    }
}

/// What datasets say, in FUSE's words.
fn said<T>(result: terrace_datasets::Result<T>) -> Answer<T> {
    result.map_err(|error| match error {
        Error::NotFound(_) | Error::NoView { .. } | Error::BadName { .. } => Errno::ENOENT,
        Error::ReadOnly(_) => Errno::EROFS,
        Error::Beyond { .. } => Errno::EFBIG,
        Error::Busy(_) => Errno::EBUSY,
        Error::Store(terrace::Error::NoSpace { .. }) => Errno::ENOSPC,
        error => {
            tracing::warn!(%error, "a request to a view failed");
            Errno::EIO
        }
    })
}
