//! Encoding of replies.

use super::message::HEADER_BYTES;
use super::record::{Qid, Record, text};

/// A reply to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The manual's names say it.
pub enum Reply<'a> {
    Version { msize: u32, version: &'a [u8] },
    Attach(Qid),
    Error(&'a str),
    Flush,
    Walk(Vec<Qid>),
    Open { qid: Qid, unit: u32 },
    Create { qid: Qid, unit: u32 },
    Write(u32),
    Clunk,
    Remove,
    Stat(Record<'a>),
    Wstat,
}

impl Reply<'_> {
    fn kind(&self) -> u8 {
        match self {
            Reply::Version { .. } => 101,
            Reply::Attach(_) => 105,
            Reply::Error(_) => 107,
            Reply::Flush => 109,
            Reply::Walk(_) => 111,
            Reply::Open { .. } => 113,
            Reply::Create { .. } => 115,
            Reply::Write(_) => 119,
            Reply::Clunk => 121,
            Reply::Remove => 123,
            Reply::Stat(_) => 125,
            Reply::Wstat => 127,
        }
    }

    /// Encodes the message and replaces the content of `out`.
    pub fn encode(&self, tag: u16, out: &mut Vec<u8>) {
        begin(self.kind(), tag, out);
        match self {
            Reply::Version { msize, version } => {
                out.extend_from_slice(&msize.to_le_bytes());
                text(out, version);
            }
            Reply::Attach(qid) => qid.encode(out),
            Reply::Error(why) => text(out, why.as_bytes()),
            Reply::Walk(qids) => {
                out.extend_from_slice(&(qids.len() as u16).to_le_bytes());
                qids.iter().for_each(|qid| qid.encode(out));
            }
            Reply::Open { qid, unit } | Reply::Create { qid, unit } => {
                qid.encode(out);
                out.extend_from_slice(&unit.to_le_bytes());
            }
            Reply::Write(count) => out.extend_from_slice(&count.to_le_bytes()),
            Reply::Stat(record) => {
                out.extend_from_slice(&(record.size() as u16).to_le_bytes());
                record.encode(out);
            }
            Reply::Flush | Reply::Clunk | Reply::Remove | Reply::Wstat => {}
        }
        end(out);
    }
}

/// Encodes a message whose data, up to `count` bytes, `read` writes in place.
pub(super) fn encode_read<E>(
    tag: u16,
    out: &mut Vec<u8>,
    count: usize,
    read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<(), E> {
    const DATA_OFFSET: usize = HEADER_BYTES + 4;
    // Reuse the bytes of the last message: zeroing them first would take as long as the read.
    if out.len() < DATA_OFFSET + count {
        out.resize(DATA_OFFSET + count, 0);
    }
    let length = read(&mut out[DATA_OFFSET..DATA_OFFSET + count])?;
    out.truncate(DATA_OFFSET + length);
    out[..HEADER_BYTES].copy_from_slice(&head(117, tag));
    out[HEADER_BYTES..DATA_OFFSET].copy_from_slice(&(length as u32).to_le_bytes());
    end(out);
    Ok(())
}

fn begin(kind: u8, tag: u16, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&head(kind, tag));
}

/// Encodes a message's head with a placeholder for its size.
fn head(kind: u8, tag: u16) -> [u8; HEADER_BYTES] {
    let [low, high] = tag.to_le_bytes();
    [0, 0, 0, 0, kind, low, high]
}

fn end(out: &mut [u8]) {
    let size = (out.len() as u32).to_le_bytes();
    out[..4].copy_from_slice(&size);
}
