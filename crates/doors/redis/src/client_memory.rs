//! [`ClientMemory`]: the bytes that a server holds for all its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The last reply to a client whose bytes the server cannot keep.
pub const OUT_OF_MEMORY: &str = "the server holds too much for its clients, and most of all for this one";

/// The reply in place of one that is too long.
pub const REPLY_TOO_LONG: &str = "OOM the reply is longer than a quarter of what the server may hold for its clients";

/// The bytes that a server holds for all its clients, and how many these may be.
///
/// The count is a number by itself, so relaxed order suffices.
#[derive(Debug)]
pub struct ClientMemory {
    limit: usize,
    held: AtomicUsize,
}

impl ClientMemory {
    /// Nothing is held. The limit is in bytes.
    pub fn new(limit: usize) -> ClientMemory {
        ClientMemory { limit, held: AtomicUsize::new(0) }
    }

    /// The most bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The most bytes of a reply with many values. Its buffer may be twice as large while it grows, and other clients need memory, too.
    pub fn max_reply_bytes(&self) -> usize {
        self.limit / 4
    }

    /// The bytes that are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether more is held than may be.
    pub fn is_exceeded(&self) -> bool {
        self.held() > self.limit
    }

    /// The part of each of some clients. If the limit is exceeded, one of them holds more.
    pub fn share(&self, clients: usize) -> usize {
        self.limit / clients.max(1)
    }
}

/// The bytes that are held for one client. Dropping it gives them back.
#[derive(Debug)]
pub struct HeldBytes {
    all: Arc<ClientMemory>,
    bytes: usize,
}

impl HeldBytes {
    /// Nothing is held.
    pub fn new(all: Arc<ClientMemory>) -> HeldBytes {
        HeldBytes { all, bytes: 0 }
    }

    /// The bytes at the last count.
    pub fn get(&self) -> usize {
        self.bytes
    }

    /// Changes the count.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.all.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.all.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The bytes that words take, with the vectors that hold them.
pub fn bytes_of(words: &[Vec<u8>]) -> usize {
    words.iter().map(|word| word.capacity() + size_of::<Vec<u8>>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_go_give_their_bytes_back() {
        let memory = Arc::new(ClientMemory::new(100));
        let (mut first, mut second) = (HeldBytes::new(memory.clone()), HeldBytes::new(memory.clone()));
        first.set(60);
        second.set(50);
        assert!(memory.is_exceeded() && first.get() > memory.share(2));
        first.set(20);
        assert_eq!((memory.held(), memory.is_exceeded()), (70, false));
        drop(second);
        assert_eq!(memory.held(), 20);
    }
}
