//! Step 5: puts chunks into packs, which are objects of the node's store.

use std::thread;

use rustix_futex_sync::{Condvar, Mutex};
use terrace::Store;

use crate::Result;
use crate::chunk::{ByHash, Hash};
use crate::manifest::{Index, Place, once};

/// Maximum length of a pack in bytes, unless a single chunk is longer. A packer that fills it waits for the storing
/// thread.
const MAX_PACK_BYTES: usize = 8 << 20;
/// An idle storing thread stores a pack once it has this many bytes.
const MIN_PACK_BYTES: usize = 512 << 10;

/// Lets `work` put chunks into packs, and stores these meanwhile, under keys that begin with `prefix`. With `once`, each distinct
/// chunk is packed only once. Returns the result of `work` and the packs, once all are stored.
pub fn pack<T>(
    store: &Store,
    prefix: &str,
    once: bool,
    work: impl FnOnce(&mut Packer<'_>) -> Result<T>,
) -> Result<(T, Packs)> {
    let shared = Shared::default();
    thread::scope(|scope| {
        let storing = scope.spawn(|| shared.store_packs(store, prefix));
        let mut packer = Packer { shared: &shared, known: once.then(ByHash::default), bytes: 0 };
        let (done, bytes) = (work(&mut packer), packer.bytes);
        drop(packer);
        let index = storing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((done?, Packs { index: index?, bytes }))
    })
}

/// The packs that were stored.
pub struct Packs {
    /// The place of each chunk.
    pub index: Index,
    /// The total length of the chunks in bytes.
    pub bytes: u64,
}

/// Accepts chunks and appends them to the open pack.
pub struct Packer<'s> {
    shared: &'s Shared,
    /// The chunks that it has accepted, if each chunk is packed only once.
    known: Option<ByHash<()>>,
    bytes: u64,
}

impl Packer<'_> {
    /// Adds a chunk. Blocks while the open pack is full and the storing thread has not taken it.
    pub fn add(&mut self, hash: Hash, bytes: &[u8]) {
        if self.known.as_mut().is_some_and(|known| known.insert(hash, ()).is_some()) {
            return;
        }
        self.bytes += bytes.len() as u64;
        let mut open = self.shared.open.lock();
        while !open.bytes.is_empty() && open.bytes.len() + bytes.len() > MAX_PACK_BYTES {
            open = self.shared.changed.wait(open);
        }
        let offset = open.bytes.len() as u32;
        open.chunks.push((hash, offset, bytes.len() as u32));
        open.bytes.extend_from_slice(bytes);
        if open.bytes.len() >= MIN_PACK_BYTES {
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

/// Hands the open pack from the packer to the storing thread. There is one thread on each side, so one condition
/// variable and `notify_one` suffice.
#[derive(Default)]
struct Shared {
    /// Held while a chunk is added or the pack is taken. Packs are stored without it.
    open: Mutex<Open>,
    changed: Condvar,
}

/// The open pack.
#[derive(Default)]
struct Open {
    bytes: Vec<u8>,
    /// The chunks with their offsets and lengths.
    chunks: Vec<(Hash, u32, u32)>,
    /// Whether this is the last pack.
    last: bool,
}

impl Shared {
    /// Stores packs until the last one. After a failure it still takes packs and discards them: otherwise the packer
    /// would block forever.
    fn store_packs(&self, store: &Store, prefix: &str) -> Result<Index> {
        let mut index = Index::default();
        let mut outcome: Result<()> = Ok(());
        loop {
            let mut open = self.open.lock();
            while open.bytes.len() < MIN_PACK_BYTES && !open.last {
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
