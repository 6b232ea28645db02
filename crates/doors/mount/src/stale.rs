//! Telling the kernel what of its mapped pages is no longer so.

use std::sync::mpsc::{Sender, channel};

use fuser::{INodeNo, Notifier};
use rustix_futex_sync::Mutex;
use terrace_tree::Open;

use crate::handles::Handles;

/// Views that show other bytes now.
#[derive(Default)]
pub struct Stale(Mutex<Option<Sender<u64>>>);

impl Stale {
    /// From now on the kernel is told. That is done by a thread of its own: within a request the kernel would wait for itself.
    pub fn tell(&self, notifier: Notifier) -> std::io::Result<()> {
        let (sender, receiver) = channel::<u64>();
        let run = move || {
            while let Ok(number) = receiver.recv() {
                // What the kernel does not know it need not forget.
                let _ = notifier.inval_inode(INodeNo(number), 0, 0);
            }
        };
        std::thread::Builder::new().name("terrace-views".into()).spawn(run)?;
        *self.0.lock() = Some(sender);
        Ok(())
    }

    /// A view was written to: other views of the dataset that are open show other bytes now.
    pub fn written(&self, written: &Open, open: &Handles<Open>) {
        let Some(dataset) = written.dataset() else { return };
        let Some(sender) = self.0.lock().clone() else { return };
        for other in open.all() {
            if other.number() != written.number() && other.dataset() == Some(dataset) {
                // Where nobody listens any more, nothing is mapped.
                let _ = sender.send(other.number());
            }
        }
    }
}
