//! Encodes the bytes of an extent once for all replicas with the same encoding.

use std::io;
use std::sync::Arc;

use rustix_futex_sync::Mutex;
use terrace_codec::Encoding;
use terrace_format::frame::{Coded, OwnedFrame, with_scratch};

/// The bytes of an extent under the first encoding that was asked for. The lock is held while one thread encodes, so others that make replicas of
/// the same extent wait for it; no other lock is taken under it.
#[derive(Default)]
pub struct OnceEncoded(Mutex<Option<(Encoding, Arc<OwnedFrame>)>>);

impl OnceEncoded {
    /// Returns the encoded bytes. Those of a second encoding are not kept. The thread's [`Scratch`](terrace_format::frame::Scratch) tells the work,
    /// which is none if another replica has caused it.
    pub fn get(&self, encoding: Encoding, raw: &[u8]) -> io::Result<Arc<OwnedFrame>> {
        let mut kept = self.0.lock();
        match &*kept {
            Some((known, frame)) if *known == encoding => {
                with_scratch(|scratch| scratch.encoded = Coded::default());
                Ok(frame.clone())
            }
            Some(_) => {
                drop(kept);
                encode(encoding, raw)
            }
            None => {
                let frame = encode(encoding, raw)?;
                *kept = Some((encoding, frame.clone()));
                Ok(frame)
            }
        }
    }
}

fn encode(encoding: Encoding, raw: &[u8]) -> io::Result<Arc<OwnedFrame>> {
    let frame = with_scratch(|scratch| OwnedFrame::encode(encoding, raw, scratch));
    frame.map(Arc::new).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use terrace_format::frame::Identity;

    use super::*;

    #[test]
    fn bytes_are_encoded_once_for_each_of_many_replicas() {
        let raw: Vec<u8> = (0..300_000u32).map(|number| (number / 7) as u8).collect();
        let (once, zstd, lz4) = (OnceEncoded::default(), "zstd-1".parse().unwrap(), "lz4".parse().unwrap());
        let first = once.get(zstd, &raw).unwrap();
        assert!(with_scratch(|scratch| scratch.encoded.raw) > 0);
        assert!(Arc::ptr_eq(&first, &once.get(zstd, &raw).unwrap()));
        assert_eq!(with_scratch(|scratch| scratch.encoded.raw), 0, "nothing was encoded");
        for (encoding, frame) in [(zstd, first), (lz4, once.get(lz4, &raw).unwrap())] {
            let identity = Identity { object: 1, write: 2, offset: 3, replica: 1 };
            let expected = with_scratch(|scratch| {
                let frame = terrace_format::frame::encode(identity, encoding, &raw, scratch).unwrap();
                (frame.header, frame.payload.to_vec())
            });
            let frame = frame.of(identity, &raw);
            assert!((frame.header, frame.payload.to_vec()) == expected);
        }
    }
}
