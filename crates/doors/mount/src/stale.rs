//! Tells the kernel which cached pages and attributes have changed.

use std::sync::mpsc::{Sender, channel};

use fuser::{INodeNo, Notifier};
use rustix_futex_sync::Mutex;

use crate::handles::Handles;
use crate::opened::Opened;

/// An offset before a file's bytes: only its attributes are dropped.
const ATTRIBUTES_ONLY: i64 = -1;

/// The queue of files and views whose bytes have changed. The lock is a leaf.
#[derive(Default)]
pub struct Stale(Mutex<Option<Notifications>>);

#[derive(Clone)]
struct Notifications {
    notifier: Notifier,
    changed: Sender<u64>,
}

impl Stale {
    /// Starts to notify the kernel, in a thread of its own: a notification about pages from within a request would deadlock, because the
    /// kernel would wait for requests that read these pages.
    pub fn start_notifier(&self, notifier: Notifier) -> std::io::Result<()> {
        let (changed, receiver) = channel::<u64>();
        let pages = notifier.clone();
        let run = move || {
            while let Ok(number) = receiver.recv() {
                // An error means that the kernel does not cache the file, so nothing is stale.
                let _ = pages.inval_inode(INodeNo(number), 0, 0);
            }
        };
        std::thread::Builder::new().name("terrace-views".into()).spawn(run)?;
        *self.0.lock() = Some(Notifications { notifier, changed });
        Ok(())
    }

    /// Queues what is open and cached and shows bytes that were just written through `written`: the file itself, for handles that read it
    /// through the page cache, and the other views and files of a dataset.
    ///
    /// The kernel drops the written pages of the file itself before the write. But a reader may fetch them again before the bytes are accepted.
    pub fn queue_readers(&self, written: &Opened, open: &Handles<Opened>) {
        let Some(Notifications { changed, .. }) = self.0.lock().clone() else { return };
        let mut queued = Vec::new();
        open.each(|other| {
            let number = other.number();
            let is_stale = match number == written.number() {
                true => other.is_cached,
                false => written.dataset().is_some() && other.dataset() == written.dataset(),
            };
            if is_stale && !queued.contains(&number) {
                queued.push(number);
                // An error means that the notifier has ended with the mount, so nothing is cached.
                let _ = changed.send(number);
            }
        });
    }

    /// Makes the kernel ask for a file's attributes before it uses them again. Waits for no request, so requests may call it.
    pub fn drop_attributes(&self, number: u64) {
        if let Some(Notifications { notifier, .. }) = self.0.lock().clone() {
            // An error means that the kernel does not know the file.
            let _ = notifier.inval_inode(INodeNo(number), ATTRIBUTES_ONLY, 0);
        }
    }
}
