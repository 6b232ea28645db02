//! [`Session`]: the state of a connection, whose requests the tree answers.

use std::sync::Arc;
use std::time::Duration;

use terrace_tree::{ROOT_NODE, Tree};

use super::directory::{qid, record};
use super::fids::{Fid, Fids};
use super::held::Held;
use super::message::{MAX_OVERHEAD_BYTES, NO_FID, Request};
use super::record::Qid;
use super::refusal::{Answer, BAD_USE, NO_AUTHENTICATION, NO_VERSION, Refusal, UNKNOWN_FID, UNKNOWN_MESSAGE};
use super::reply::{Reply, encode_read};

/// The largest message: 1 MiB of data and its overhead.
pub const MAX_MESSAGE_BYTES: u32 = (1 << 20) + MAX_OVERHEAD_BYTES;
/// The smallest message size that can be negotiated.
const MIN_MESSAGE_BYTES: u32 = 256;
/// The largest message before the negotiation.
const INITIAL_MESSAGE_BYTES: u32 = 8 << 10;
const PROTOCOL_VERSION: &[u8] = b"9P2000";

/// A connection's state.
pub struct Session {
    pub(super) tree: Arc<Tree>,
    pub(super) fids: Fids,
    /// The largest message, once negotiated.
    msize: Option<u32>,
}

impl Session {
    pub fn new(tree: &Arc<Tree>) -> Session {
        Session { tree: tree.clone(), fids: Fids::default(), msize: None }
    }

    /// The largest message that may arrive now.
    pub fn limit(&self) -> u32 {
        self.msize.unwrap_or(INITIAL_MESSAGE_BYTES)
    }

    /// How long the server spares the connection while it waits for a request: the longer, the more its end would lose.
    pub fn spared(&self, usual: Duration) -> Duration {
        match self.msize {
            None => Duration::ZERO,
            Some(_) if self.fids.may_be_open() => usual * 12,
            Some(_) => usual,
        }
    }

    /// Writes the reply to a request into `out`.
    pub fn answer(&mut self, tag: u16, request: Request, out: &mut Vec<u8>) {
        let done = match request {
            request if self.msize.is_none() && !matches!(request, Request::Version { .. }) => Err(NO_VERSION),
            Request::Read { fid, offset, count } => self.read(fid, offset, count, tag, out),
            Request::Stat { fid } => self.stat(fid, tag, out),
            request => self.reply(request).map(|reply| reply.encode(tag, out)),
        };
        if let Err(Refusal(why)) = done {
            Reply::Error(&why).encode(tag, out);
        }
    }

    fn reply(&mut self, request: Request) -> Answer<Reply<'static>> {
        Ok(match request {
            Request::Version { msize, version } => self.version(msize, version),
            Request::Auth => return Err(NO_AUTHENTICATION),
            Request::Attach { afid, .. } if afid != NO_FID => return Err(NO_AUTHENTICATION),
            Request::Attach { fid, aname, .. } => Reply::Attach(self.attach(fid, aname)?),
            // Requests are answered in order, so the request to flush is complete.
            Request::Flush => Reply::Flush,
            Request::Walk { fid, newfid, names } => Reply::Walk(self.walk(fid, newfid, &names)?),
            Request::Open { fid, mode } => Reply::Open { qid: self.open(fid, mode)?, unit: self.unit() },
            Request::Create { fid, name, perm, mode } => {
                Reply::Create { qid: self.create(fid, name, perm, mode)?, unit: self.unit() }
            }
            Request::Write { fid, offset, data } => Reply::Write(self.write(fid, offset, data)?),
            Request::Clunk { fid } => {
                let fid = self.fids.take(fid)?;
                self.close(fid)?;
                Reply::Clunk
            }
            Request::Remove { fid } => {
                let Fid { held, .. } = self.fids.take(fid)?;
                self.tree.remove_number(held.number())?;
                Reply::Remove
            }
            Request::Wstat { fid, record } => {
                self.set(fid, &record)?;
                Reply::Wstat
            }
            Request::Unknown | Request::Read { .. } | Request::Stat { .. } => return Err(UNKNOWN_MESSAGE),
        })
    }

    /// Resets the session and closes its files. Answers dialects with plain 9P2000.
    fn version(&mut self, msize: u32, version: &[u8]) -> Reply<'static> {
        for fid in self.fids.take_all() {
            // No client waits for these errors.
            let _ = self.close(fid);
        }
        let known = version.split(|byte| *byte == b'.').next() == Some(PROTOCOL_VERSION) && msize >= MIN_MESSAGE_BYTES;
        self.msize = known.then_some(msize.min(MAX_MESSAGE_BYTES));
        Reply::Version {
            msize: msize.min(MAX_MESSAGE_BYTES),
            version: if known { PROTOCOL_VERSION } else { b"unknown" },
        }
    }

    fn unit(&self) -> u32 {
        self.limit() - MAX_OVERHEAD_BYTES
    }

    /// Assigns a fid to the root, or to the directory at the path `aname`.
    fn attach(&mut self, fid: u32, aname: &[u8]) -> Answer<Qid> {
        if fid == NO_FID {
            return Err(UNKNOWN_FID);
        }
        self.fids.check_free(fid)?;
        let mut node = self.tree.node(ROOT_NODE, None)?;
        let mut held = Held::of(&self.tree, &node);
        for name in aname.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            node = self.tree.find(held.number(), name)?;
            held = Held::of(&self.tree, &node);
        }
        self.fids.insert(fid, held);
        Ok(qid(&node))
    }

    /// Walks from a fid along names; assigns the new fid only if all names are found.
    fn walk(&mut self, fid: u32, newfid: u32, names: &[&[u8]]) -> Answer<Vec<Qid>> {
        let from = self.fids.get(fid)?;
        if from.is_open() {
            return Err(BAD_USE);
        }
        if newfid != fid {
            self.fids.check_free(newfid)?;
        }
        let mut held = from.held.clone();
        let mut qids = Vec::with_capacity(names.len());
        for name in names {
            let found = match *name {
                b".." => self.tree.above(held.number()),
                name => self.tree.find(held.number(), name),
            };
            let node = match found {
                Ok(node) => node,
                Err(error) if qids.is_empty() => return Err(error.into()),
                Err(_) => return Ok(qids),
            };
            held = Held::of(&self.tree, &node);
            qids.push(qid(&node));
        }
        self.fids.insert(newfid, held);
        Ok(qids)
    }

    fn stat(&self, fid: u32, tag: u16, out: &mut Vec<u8>) -> Answer<()> {
        let fid = self.fids.get(fid)?;
        let node = self.tree.node(fid.held.number(), fid.open())?;
        // An open file that was removed has no name.
        let name = self.tree.place(node.number).map_or_else(|_| b"removed".to_vec(), |(_, name)| name);
        record(&node, &name, |record| Reply::Stat(record).encode(tag, out));
        Ok(())
    }

    fn read(&mut self, fid: u32, offset: u64, count: u32, tag: u16, out: &mut Vec<u8>) -> Answer<()> {
        let count = count.min(self.unit()) as usize;
        encode_read(tag, out, count, |out| self.read_bytes(fid, offset, out))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for fid in self.fids.take_all() {
            // No client waits for these errors.
            let _ = self.close(fid);
        }
    }
}
