//! The duties of a node: it joins, reports, syncs, makes replicas, and gives places back.

use terrace_catalog::first_number;
use terrace_format::{Change, Edit, Expect, Place, Replica, Step, TargetId};
use terrace_order::{Order, OrderError, Proposer};

use crate::node::{STORE_ID, Whose};
use crate::world::World;

/// The number of frames in a segment.
const FRAMES_PER_SEGMENT: u64 = 4;

impl World {
    /// A node adds a step to its next record. If it has no incarnation, it begins one.
    pub fn propose(&mut self, node: usize, whose: Option<Whose>, step: Step) {
        if !self.nodes[node].is_up() {
            return;
        }
        if self.nodes[node].proposer.is_none() {
            self.join(node);
        }
        if let Some(proposer) = &mut self.nodes[node].proposer {
            proposer.propose(whose, step).unwrap();
        }
    }

    /// Begins an incarnation, unless the node has a fence that it does not know.
    fn join(&mut self, number: usize) {
        let joined = self.logs[number].join(self.nodes[number].last_incarnation);
        if let Err(OrderError::Taken { .. }) = joined {
            self.counts.note("joins refused");
            if self.random.once_in(3) {
                self.logs[number].expel();
            }
            return;
        }
        let incarnation = joined.unwrap();
        self.sessions += 1;
        let session = self.sessions;
        let node = &mut self.nodes[number];
        let mut proposer = Proposer::new(STORE_ID, incarnation);
        let (target, doubtful) = (number as TargetId, node.lost_power);
        for step in [
            Step::Join { node: number.to_string() },
            Step::Serve { target, persistent: true, doubtful },
            Step::Begin { session },
        ] {
            proposer.propose(None, step).unwrap();
        }
        node.last_incarnation = Some(incarnation);
        (node.proposer, node.own, node.written) = (Some(proposer), (session, 0), 0);
        // The pins ended with the incarnation before: its clients have to open what they read again.
        node.open.clear();
    }

    /// A node proposes a change of its own.
    fn change(&mut self, node: usize, change: Change) {
        if self.nodes[node].proposer.is_some() {
            self.nodes[node].own.1 += 1;
            let (session, number) = self.nodes[node].own;
            self.propose(node, None, Step::Change { session, number, change });
        }
    }

    /// Whether a node has a fence, and its own index knows that it has joined. Only then may clients read there.
    pub fn is_live(&self, node: usize) -> bool {
        let fence = self.logs[node].fences().unwrap().remove(&node.to_string());
        self.nodes[node].short().is_some()
            && self.nodes[node].proposer.as_ref().is_some_and(|proposer| Some(proposer.incarnation()) == fence)
    }

    /// Whether a node's own index says that it serves its target.
    fn serves(&self, node: usize) -> bool {
        let Some(short) = self.nodes[node].short() else { return false };
        self.nodes[node].catalog().served(node as TargetId).unwrap().is_some_and(|served| served.short == short)
    }

    /// Writes a frame to a node's target. Its incarnation must be known.
    pub fn write_frame(&mut self, node: usize) -> Replica {
        let one = &mut self.nodes[node];
        let short = one.short().unwrap();
        let segment = first_number(short) + one.written / FRAMES_PER_SEGMENT;
        let place = Place { segment, offset: one.written % FRAMES_PER_SEGMENT * 128, length: 128 };
        one.written += 1;
        one.disk.write(place);
        Replica { target: node as TargetId, place, stored: 64, encoding: "none".parse().unwrap() }
    }

    pub fn report(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            let sequence = self.nodes[node].catalog().tail().unwrap().sequence;
            let pins = self.nodes[node].open.iter().map(|open| (open.object, open.generation)).collect();
            self.propose(node, None, Step::Report { sequence, pins });
        }
    }

    /// A node syncs its disk, and says how far the log's frames are there. After a loss of power, it first gives up those that are gone.
    pub fn sync(&mut self, number: usize) {
        if !self.nodes[number].is_up() || !self.serves(number) {
            return;
        }
        let target = number as TargetId;
        let mut gone = Vec::new();
        let node = &mut self.nodes[number];
        node.disk.sync();
        let frames = node.disk.all().map(|place| (target, place));
        self.ever_synced.extend(frames);
        let sequence = node.catalog().tail().unwrap().sequence;
        if node.lost_power {
            let catalog = node.catalog();
            catalog
                .each_object(b"", |key, object, extents| {
                    for extent in extents {
                        let lost = extent.replicas.iter().find(|r| r.target == target && !node.disk.holds(r.place));
                        if let Some(replica) = lost.filter(|_| extent.replicas.len() > 1) {
                            let task = extent.task(object.id, target);
                            let key = serde_bytes::ByteBuf::from(key);
                            gone.push(Edit::Lost { task, key, place: replica.place, owed: Some(target) });
                        }
                    }
                    Ok::<_, terrace_catalog::Error>(true)
                })
                .unwrap();
        }
        if gone.is_empty() {
            self.nodes[number].lost_power = false;
            return self.propose(number, None, Step::Synced { target, sequence });
        }
        self.change(number, Change { expect: Vec::new(), edits: gone });
    }

    /// A node makes a replica that is pending on its target.
    pub fn make(&mut self, node: usize) {
        if !self.nodes[node].is_up() || !self.serves(node) {
            return;
        }
        let owed = self.nodes[node].catalog().owed(None, 50).unwrap();
        let Some((task, owed)) = owed.into_iter().find(|(task, _)| usize::from(task.target) == node) else { return };
        // The bytes come from another replica.
        let extent = self.nodes[node].catalog().frame(&task, &owed.key).unwrap();
        let is_there = |r: &Replica| self.nodes[usize::from(r.target)].disk.holds(r.place);
        if extent.is_some_and(|extent| extent.replicas.iter().any(is_there)) {
            let replica = self.write_frame(node);
            let change =
                Change { expect: vec![Expect::Owed(task, owed.key)], edits: vec![Edit::Made { task, replica }] };
            self.change(node, change);
        }
    }

    /// A node does the keeper's work: it notes which incarnations have gone, and raises the floor, sometimes too far.
    pub fn keep(&mut self, node: usize) {
        if !self.nodes[node].is_up() {
            return;
        }
        let members = self.nodes[node].catalog().members().unwrap();
        let fences = self.logs[node].fences().unwrap();
        for (incarnation, _) in &members {
            if !fences.values().any(|fence| fence == incarnation) {
                self.propose(node, None, Step::Leave { incarnation: *incarnation });
            }
        }
        let catalog = self.nodes[node].catalog();
        let reported = members.iter().map(|(_, member)| member.reported);
        let limit = reported.min().unwrap_or(0).min(catalog.settled().unwrap());
        let beyond = if self.random.once_in(4) { self.random.below(20) } else { 0 };
        self.propose(node, None, Step::Floor { sequence: limit + beyond });
    }

    /// A node gives back the places on its target that the floor in its index allows.
    pub fn free(&mut self, node: usize) {
        if !self.nodes[node].is_up() || !self.serves(node) {
            return;
        }
        let target = node as TargetId;
        let floor = self.nodes[node].catalog().floor().unwrap();
        let places = self.nodes[node].catalog().dead_below_floor(target, u64::MAX, 10).unwrap();
        let last = self.nodes[node].catalog().last_freed(target).unwrap();
        if places.is_empty() && last.is_some_and(|last| last <= floor) {
            self.counts.note("places not freed because they are pinned");
        }
        for (_, place) in &places {
            self.check_freed(target, *place);
            self.nodes[node].disk.free(*place);
            self.counts.note("frames freed");
        }
        if !places.is_empty() {
            self.change(node, Edit::Freed { target, places }.into());
        }
    }
}
