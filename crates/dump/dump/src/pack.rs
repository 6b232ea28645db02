//! Step 5: chunks go into packs, which are objects of the node's store.

use std::thread;

use rustix_futex_sync::{Condvar, Mutex};
use terrace::Store;

use crate::Result;
use crate::chunk::{ByHash, Hash};
use crate::manifest::{Index, Place, once};

/// A pack is stored once it holds so many bytes,
const PACK: usize = 8 << 20;
/// or so many where the store would have nothing to do otherwise.
const LEAST: usize = 512 << 10;

/// Has `work` gather chunks into packs, which a thread puts into the store meanwhile, under keys that begin with `prefix`; each
/// chunk `once`, or as often as it comes. What `work` returned, and what was packed once all of it is stored.
pub fn pack<T>(
    store: &Store,
    prefix: &str,
    once: bool,
    work: impl FnOnce(&mut Packer<'_>) -> Result<T>,
) -> Result<(T, Packs)> {
    let shared = Shared::default();
    thread::scope(|scope| {
        let storing = scope.spawn(|| shared.store(store, prefix));
        let mut packer = Packer { shared: &shared, known: once.then(ByHash::default), bytes: 0 };
        let (done, bytes) = (work(&mut packer), packer.bytes);
        drop(packer);
        let index = storing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((done?, Packs { index: index?, bytes }))
    })
}

/// What has been packed.
pub struct Packs {
    /// Where each chunk is.
    pub index: Index,
    /// Bytes of chunks.
    pub bytes: u64,
}

/// Takes chunks.
pub struct Packer<'s> {
    shared: &'s Shared,
    /// What it has taken, where each chunk is to be stored once.
    known: Option<ByHash<()>>,
    bytes: u64,
}

impl Packer<'_> {
    /// Takes a chunk; waits where the store does not keep up.
    pub fn add(&mut self, hash: Hash, bytes: &[u8]) {
        if self.known.as_mut().is_some_and(|known| known.insert(hash, ()).is_some()) {
            return;
        }
        self.bytes += bytes.len() as u64;
        let mut open = self.shared.open.lock();
        while !open.bytes.is_empty() && open.bytes.len() + bytes.len() > PACK {
            open = self.shared.changed.wait(open);
        }
        let offset = open.bytes.len() as u32;
        open.chunks.push((hash, offset, bytes.len() as u32));
        open.bytes.extend_from_slice(bytes);
        if open.bytes.len() >= LEAST {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Packer<'_> {
    fn drop(&mut self) {
        self.shared.open.lock().last = true;
        self.shared.changed.notify_one();
    }
}

/// The pack that fills, between who fills it and who stores it: each waits for the other alone.
#[derive(Default)]
struct Shared {
    open: Mutex<Open>,
    changed: Condvar,
}

/// A pack that fills.
#[derive(Default)]
struct Open {
    bytes: Vec<u8>,
    /// Chunks with their first bytes and their lengths.
    chunks: Vec<(Hash, u32, u32)>,
    /// Whether none comes after it.
    last: bool,
}

impl Shared {
    /// Stores packs until the last one. After a failure they are taken all the same: nobody is kept waiting.
    fn store(&self, store: &Store, prefix: &str) -> Result<Index> {
        let mut index = Index::default();
        let mut outcome: Result<()> = Ok(());
        loop {
            let mut open = self.open.lock();
            while open.bytes.len() < LEAST && !open.last {
                open = self.changed.wait(open);
            }
            let (bytes, chunks) = (std::mem::take(&mut open.bytes), std::mem::take(&mut open.chunks));
            drop(open);
            self.changed.notify_one();
            if bytes.is_empty() {
                return outcome.map(|()| index);
            }
            let pack = index.packs.len() as u32;
            let key = format!("{prefix}-{pack}");
            if outcome.is_ok()
                && let Err(error) = store.put_bytes(key.as_bytes(), &bytes, &once())
            {
                outcome = Err(error.into());
            }
            index.packs.push(key);
            let place = |(hash, offset, length)| (hash, Place { pack, offset, length });
            index.chunks.extend(chunks.into_iter().map(place));
        }
    }
}
