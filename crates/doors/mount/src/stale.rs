//! Invalidates the kernel's mapped pages of views that have changed.

use std::sync::mpsc::{Sender, channel};

use fuser::{INodeNo, Notifier};
use rustix_futex_sync::Mutex;
use terrace_tree::Open;

use crate::handles::Handles;

/// The queue of views whose bytes have changed.
#[derive(Default)]
pub struct Stale(Mutex<Option<Sender<u64>>>);

impl Stale {
    /// Starts to notify the kernel, in a thread of its own: a notification from within a request would deadlock, because the kernel would
    /// wait for that request.
    pub fn start_notifier(&self, notifier: Notifier) -> std::io::Result<()> {
        let (sender, receiver) = channel::<u64>();
        let run = move || {
            while let Ok(number) = receiver.recv() {
                // An error means that the kernel does not cache the view, so nothing is stale.
                let _ = notifier.inval_inode(INodeNo(number), 0, 0);
            }
        };
        std::thread::Builder::new().name("terrace-views".into()).spawn(run)?;
        *self.0.lock() = Some(sender);
        Ok(())
    }

    /// Queues the other open views of the dataset after a write to one view.
    pub fn queue_related_views(&self, written: &Open, open: &Handles<Open>) {
        let Some(dataset) = written.dataset() else { return };
        let Some(sender) = self.0.lock().clone() else { return };
        for other in open.all() {
            if other.number() != written.number() && other.dataset() == Some(dataset) {
                // An error means that the notifier has ended with the mount, so nothing is mapped.
                let _ = sender.send(other.number());
            }
        }
    }
}
