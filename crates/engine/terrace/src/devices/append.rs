//! Encodes an extent and appends it to a target.

use std::cell::RefCell;
use std::io;

use terrace_catalog::Replica;
use terrace_codec::Encoding;
use terrace_format::frame::{self, Identity, Scratch};

use super::Device;

/// Lends the thread's buffers and codec contexts.
pub fn with_scratch<T>(run: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static FRAME_SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
    }
    FRAME_SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => run(&mut scratch),
        Err(_) => run(&mut Scratch::default()),
    })
}

/// Writes one replica of an extent: encoded, checksummed, appended.
pub fn append_to(device: &Device, identity: Identity, encoding: Encoding, raw: &[u8]) -> io::Result<Replica> {
    with_scratch(|scratch| {
        let frame = frame::encode(identity, encoding, raw, scratch).map_err(|e| io::Error::other(e.to_string()))?;
        let (stored, encoding) = (frame.header.stored_len, frame.header.encoding);
        let place = device.append(&frame)?;
        Ok(Replica { target: device.id, place, stored, encoding })
    })
}
