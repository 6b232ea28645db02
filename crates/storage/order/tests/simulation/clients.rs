//! The clients of the nodes: they ask for changes, and read objects.

use terrace_catalog::Verdict;
use terrace_format::{Attributes, Change, Edit, Expect, Extent, NewExtent, Step, TargetId};

use crate::node::{BEGIN_NUMBER, END_NUMBER, Open, Whose};
use crate::world::{CLIENT_COUNT, NODE_COUNT, World};

/// Some changes are cut into pieces of this size.
const MAX_PIECE_BYTES: usize = 40;

const ALL_KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// A client. It has one change under way, and tries it again with the same number until it knows the verdict or gives up.
pub struct Client {
    pub node: usize,
    pub session: u64,
    pub has_begun: bool,
    pub number: u64,
    /// The change under way, and the highest slot of an answer that any client had when it began.
    pub under_way: Option<(Change, u64)>,
}

/// A verdict that a client was told.
pub struct Told {
    pub session: u64,
    pub number: u64,
    pub verdict: Verdict,
    /// The highest slot of an answer that any client had before the change was asked for.
    pub after: u64,
}

impl World {
    /// A client asks for a change, or again for the one under way.
    pub fn ask(&mut self, client: usize) {
        if !self.nodes[self.clients[client].node].is_up() {
            return;
        }
        if self.clients[client].session == 0 {
            self.sessions += 1;
            self.clients[client].session = self.sessions;
        }
        if self.clients[client].has_begun && self.clients[client].under_way.is_none() {
            let change = self.random_change(client);
            self.clients[client].number += 1;
            self.clients[client].under_way = Some((change, self.answered));
        }
        let Client { node, session, has_begun, number, .. } = self.clients[client];
        // A node proposes all pieces together, so only where it has joined.
        let has_joined = self.nodes[self.clients[client].node].proposer.is_some();
        let most = if has_joined && self.random.once_in(4) { MAX_PIECE_BYTES } else { usize::MAX };
        let (whose, mut steps) = match &self.clients[client].under_way {
            Some((change, _)) if has_begun => {
                (Whose { client, session, number }, Step::change(session, number, change, most))
            }
            _ => (Whose { client, session, number: BEGIN_NUMBER }, vec![Step::Begin { session }]),
        };
        let last = steps.pop().unwrap();
        if !steps.is_empty() {
            self.counts.note("changes in pieces");
        }
        steps.into_iter().for_each(|piece| self.propose(node, None, piece));
        self.propose(node, Some(whose), last);
    }

    /// A node tells a client what became of its step.
    pub fn deliver_verdict(&mut self, node: usize, slot: u64, Whose { client, session, number }: Whose) {
        if self.random.once_in(7) {
            return self.counts.note("answers to clients lost");
        }
        let one = &mut self.clients[client];
        if one.node != node || one.session != session || number == END_NUMBER {
            return;
        }
        if number == BEGIN_NUMBER {
            one.has_begun = true;
            return;
        }
        if one.number != number || one.under_way.is_none() {
            return;
        }
        // No verdict: the session had ended before the change came.
        let Some(verdict) = self.nodes[node].catalog().verdict(session, number).unwrap() else { return };
        let (_, after) = one.under_way.take().unwrap();
        self.answered = self.answered.max(slot);
        self.counts.note(match verdict {
            Verdict::Done(_) => "changes told",
            Verdict::Stale => "changes with stale frames",
            _ => "changes refused",
        });
        self.told.push(Told { session, number, verdict, after });
    }

    /// A client dies while its change may be under way. Its node ends the session, and another client takes its place.
    pub fn end_session(&mut self, client: usize) {
        let Client { node, session, has_begun, number, .. } = self.clients[client];
        if !has_begun || !self.nodes[node].is_up() {
            return;
        }
        self.propose(node, Some(Whose { client, session, number: END_NUMBER }), Step::End { session });
        if self.random.once_in(2) {
            // Its last words come after its end.
            let change = self.random_change(client);
            let number = number + 1;
            self.propose(node, Some(Whose { client, session, number }), Step::Change { session, number, change });
            self.counts.note("changes of ended sessions");
        }
        let node = self.random_node();
        self.clients[client] = Client { node, session: 0, has_begun: false, number: 0, under_way: None };
    }

    /// A client goes on without knowing what became of its change.
    pub fn give_up(&mut self) {
        let client = self.random.below(CLIENT_COUNT as u64) as usize;
        self.clients[client].under_way = None;
    }

    fn random_change(&mut self, client: usize) -> Change {
        let key = self.random.pick(&ALL_KEYS).to_vec();
        let other = self.random.pick(&ALL_KEYS).to_vec();
        // What the client's node knows, which may be old.
        let node = self.clients[client].node;
        let known = self.nodes[node].catalog().object(&key).unwrap();
        let may_write = self.nodes[node].short().is_some();
        match (self.random.below(12), known) {
            (0..3, _) if may_write => {
                let extents = vec![self.new_extent(node, 0)];
                let object = self.id();
                let edit = Edit::Put {
                    key: key.clone(),
                    object,
                    length: 64,
                    want: 2,
                    attributes: Attributes::default(),
                    staged: false,
                    extents,
                };
                let expect = if self.random.once_in(2) { vec![Expect::Absent(key)] } else { Vec::new() };
                Change { expect, edits: vec![edit] }
            }
            (3..6, Some(object)) if may_write => {
                let offset = self.random.below(4) * 32;
                let extents = vec![self.new_extent(node, offset)];
                let expect = vec![Expect::Generation(key.clone(), object.generation)];
                Change { expect, edits: vec![Edit::Write { key, object: object.id, want: 2, mtime: 0, extents }] }
            }
            (6, Some(object)) => {
                let expect = vec![Expect::Names(key.clone(), object.id)];
                Change { expect, edits: vec![Edit::SetLength { key, length: self.random.below(90), mtime: 1 }] }
            }
            (7, Some(_)) => {
                Change { expect: vec![Expect::Exists(key.clone())], edits: vec![Edit::Rename { from: key, to: other }] }
            }
            (8..11, Some(object)) => self.drop_replica(node, &key, object.id),
            _ => Change { expect: vec![Expect::Exists(key.clone())], edits: vec![Edit::Remove { key }] },
        }
    }

    /// A new extent, with a frame on the node's own target and a pending one on that of the next node.
    fn new_extent(&mut self, node: usize, offset: u64) -> NewExtent {
        let (write, replica) = (self.id(), self.write_frame(node));
        let replicas = [replica].into_iter().collect();
        let extent = Extent { offset, length: 64, skip: 0, raw_len: 64, write, replicas, source: None };
        NewExtent { extent, owed: vec![((node + 1) % NODE_COUNT) as TargetId] }
    }

    /// Drops a replica of an object, if another one is synced.
    fn drop_replica(&mut self, node: usize, key: &[u8], object: u64) -> Change {
        let (_, extents) = self.nodes[node].catalog().locate(key, 0, u64::MAX).unwrap().unwrap();
        let dropped = extents.into_iter().find(|extent| extent.replicas.len() > 1).map(|extent| {
            let replica = *self.random.pick(&extent.replicas);
            (extent.task(object, replica.target), replica)
        });
        let Some((task, replica)) = dropped else { return Edit::Remove { key: key.to_vec() }.into() };
        let owed = None;
        let lost = Edit::Lost { task, key: serde_bytes::ByteBuf::from(key), place: replica.place, owed };
        Change { expect: vec![Expect::KeepsSynced { task, key: key.to_vec() }], edits: vec![lost] }
    }

    /// A client opens an object on its node, and reads it for a while.
    pub fn open(&mut self, node: usize) {
        let key = self.random.pick(&ALL_KEYS).to_vec();
        if !self.is_live(node) {
            return;
        }
        let catalog = self.nodes[node].catalog();
        let Some((object, extents)) = catalog.locate(&key, 0, u64::MAX).unwrap() else { return };
        let replicas = extents.into_iter().flat_map(|extent| extent.replicas).collect();
        self.nodes[node].open.push(Open { object: object.id, generation: object.generation, replicas });
    }

    pub fn close(&mut self, node: usize) {
        self.nodes[node].open.pop();
    }
}
