//! [`Session`]: a connection's requests, each answered by the tree.

use std::sync::Arc;

use terrace_tree::{ROOT, Tree};

use super::directory::{qid, record};
use super::fids::{Fid, Fids, Held};
use super::message::{NO_FID, OVERHEAD, Request};
use super::record::Qid;
use super::refusal::{Answer, BAD_USE, NO_AUTHENTICATION, NO_VERSION, Refusal, UNKNOWN_FID, UNKNOWN_MESSAGE};
use super::reply::{Reply, encode_read};
use crate::activity::Holding;

/// The largest message: 1 MiB of a file, and what is around it.
pub const LARGEST: u32 = (1 << 20) + OVERHEAD;
/// The smallest that can be agreed on.
const SMALLEST: u32 = 256;
/// Before anything is agreed on.
const FIRST: u32 = 8 << 10;
const VERSION: &[u8] = b"9P2000";

/// A connection's state.
pub struct Session {
    pub(super) tree: Arc<Tree>,
    pub(super) fids: Fids,
    /// The largest message, once it is agreed on.
    msize: Option<u32>,
}

impl Session {
    pub fn new(tree: &Arc<Tree>) -> Session {
        Session { tree: tree.clone(), fids: Fids::default(), msize: None }
    }

    /// The largest message that may come now.
    pub fn limit(&self) -> u32 {
        self.msize.unwrap_or(FIRST)
    }

    /// What ends with the connection.
    pub fn holding(&self) -> Holding {
        match self.msize {
            None => Holding::Nothing,
            Some(_) if self.fids.may_be_open() => Holding::Files,
            Some(_) => Holding::Names,
        }
    }

    /// Puts the answer to a request into `out`.
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
            // Whatever was to be stopped is done.
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

    /// Begins anew: what was open is closed. Dialects are told that this is 9P2000.
    fn version(&mut self, msize: u32, version: &[u8]) -> Reply<'static> {
        for fid in self.fids.take_all() {
            // Nobody is there to be told.
            let _ = self.close(fid);
        }
        let known = version.split(|byte| *byte == b'.').next() == Some(VERSION) && msize >= SMALLEST;
        self.msize = known.then_some(msize.min(LARGEST));
        Reply::Version { msize: msize.min(LARGEST), version: if known { VERSION } else { b"unknown" } }
    }

    fn unit(&self) -> u32 {
        self.limit() - OVERHEAD
    }

    /// A fid for the root, or for the directory that `aname` is the path of.
    fn attach(&mut self, fid: u32, aname: &[u8]) -> Answer<Qid> {
        if fid == NO_FID {
            return Err(UNKNOWN_FID);
        }
        self.fids.check_free(fid)?;
        let mut node = self.tree.node(ROOT, None)?;
        let mut held = Held::of(&self.tree, &node);
        for name in aname.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            node = self.tree.find(held.number(), name)?;
            held = Held::of(&self.tree, &node);
        }
        self.fids.insert(fid, held);
        Ok(qid(&node))
    }

    /// Goes from a fid along names; the new fid is given only if all were found.
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
        // What was removed and is still open has no name.
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
            // Nobody is there to be told.
            let _ = self.close(fid);
        }
    }
}
