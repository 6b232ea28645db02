//! Buffers of requests and answers that are used again. The system fills new memory page by page, which takes as long as sending it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use hyper::body::Bytes;
use rustix_futex_sync::Mutex;

/// The most buffers that wait to be used again.
const MAX_SPARE_BUFFERS: usize = 16;

/// Buffers, for all threads.
#[derive(Clone, Default)]
pub struct Buffers(
    /// The lock is a leaf, held for one push or pop.
    Arc<Mutex<Vec<Vec<u8>>>>,
);

impl Buffers {
    /// Lends a buffer. It may hold bytes of its last use.
    pub fn lend(&self) -> Buffer {
        let bytes = self.0.lock().pop().unwrap_or_default();
        Buffer { bytes, home: self.clone() }
    }
}

/// A buffer, which goes back when it is dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffer {
    /// Makes it a body, after which it goes back.
    pub fn into_body(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut spare = self.home.0.lock();
        if spare.len() < MAX_SPARE_BUFFERS {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}
