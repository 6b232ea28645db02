//! Answers as bytes.

use super::message::HEADER;
use super::record::{Qid, Record, text};

/// What a client is told.
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

    /// The message, in the place of what `out` holds.
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

/// The message with bytes that `read` puts where they belong: up to `count` of them.
pub(super) fn encode_read<E>(
    tag: u16,
    out: &mut Vec<u8>,
    count: usize,
    read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<(), E> {
    const START: usize = HEADER + 4;
    // What the last message left is written over: to make it zeros first would take as long as to read.
    if out.len() < START + count {
        out.resize(START + count, 0);
    }
    let length = read(&mut out[START..START + count])?;
    out.truncate(START + length);
    out[..HEADER].copy_from_slice(&head(117, tag));
    out[HEADER..START].copy_from_slice(&(length as u32).to_le_bytes());
    end(out);
    Ok(())
}

fn begin(kind: u8, tag: u16, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&head(kind, tag));
}

/// A message's head, before its size is known.
fn head(kind: u8, tag: u16) -> [u8; HEADER] {
    let [low, high] = tag.to_le_bytes();
    [0, 0, 0, 0, kind, low, high]
}

fn end(out: &mut [u8]) {
    let size = (out.len() as u32).to_le_bytes();
    out[..4].copy_from_slice(&size);
}
