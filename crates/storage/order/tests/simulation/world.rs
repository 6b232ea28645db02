//! All nodes and clients, the log, the network between them, and the laws.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use terrace_catalog::{Catalog, Error, Verdict};
use terrace_format::{Attributes, Change, Edit, Expect, Extent, NewExtent, Place, Proposal, Replica, Step};
use terrace_order::{Answer, Append, Fate, Proposer};
use terrace_testkit::Random;

use crate::log::Log;
use crate::node::{BEGIN_NUMBER, END_NUMBER, Node, STORE_ID, Whose};
use crate::reference::Reference;

const NODE_COUNT: usize = 3;
const CLIENT_COUNT: usize = 4;
const ALL_KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// The letters of records that a store without a shared log does not have, or whose value holds the time.
const LETTERS_NOT_COMPARED: [u8; 3] = *b"cif";
/// The things that happen in any thirty runs.
const ALL_FAULTS: [&str; 13] = [
    "answers of the log lost",
    "answers to clients lost",
    "appends that came late",
    "changes of ended sessions",
    "changes refused",
    "changes told",
    "fences gone",
    "kills",
    "power losses",
    "records out of order",
    "snapshots loaded",
    "steps repeated in the log",
    "trimmed before the answer",
];

/// A client. It has one change under way, and tries it again with the same number until it knows the verdict or gives up.
struct Client {
    node: usize,
    session: u64,
    has_begun: bool,
    number: u64,
    /// The change under way, and the highest slot of an answer that any client had when it began.
    under_way: Option<(Change, u64)>,
}

/// A verdict that a client was told.
struct Told {
    session: u64,
    number: u64,
    verdict: Verdict,
    /// The highest slot of an answer that any client had before the change was asked for.
    after: u64,
}

/// How often each thing happened.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Counts) {
        other.0.iter().for_each(|(what, count)| *self.0.entry(what).or_default() += count);
    }

    pub fn missing(&self) -> Vec<&'static str> {
        ALL_FAULTS.into_iter().filter(|fault| !self.0.contains_key(fault)).collect()
    }
}

pub struct World {
    random: Random,
    folder: TempDir,
    log: Log,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    /// Appends on their way to the log; some of them for a long time, or repeatedly.
    network: Vec<(usize, Append)>,
    /// The newest snapshot, and its slot.
    snapshot: Option<(PathBuf, u64)>,
    sessions: u64,
    ids: u64,
    time: u64,
    told: Vec<Told>,
    /// The first append of each incarnation that a node was told is not in the log.
    refused: Vec<(u64, u64)>,
    /// The highest slot of an answer that a client had.
    answered: u64,
    pub counts: Counts,
}

impl World {
    pub fn new(seed: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        let nodes = (0..NODE_COUNT).map(|node| Node::new(&folder.path().join(format!("node{node}")))).collect();
        let clients = (0..CLIENT_COUNT)
            .map(|client| Client {
                node: client % NODE_COUNT,
                session: 0,
                has_begun: false,
                number: 0,
                under_way: None,
            })
            .collect();
        World {
            random: Random::new(seed),
            folder,
            log: Log::default(),
            nodes,
            clients,
            network: Vec::new(),
            snapshot: None,
            sessions: 0,
            ids: 0,
            time: 1000,
            told: Vec::new(),
            refused: Vec::new(),
            answered: 0,
            counts: Counts::default(),
        }
    }

    /// Lets one thing happen.
    pub fn act(&mut self) {
        let node = self.random_node();
        match self.random.below(1000) {
            0..270 => {
                let client = self.random.below(CLIENT_COUNT as u64) as usize;
                self.ask(client);
            }
            270..490 => self.send(node),
            490..710 => self.deliver(),
            710..960 => self.follow(node),
            960..966 => self.kill(node),
            966..968 => self.lose_power(node),
            968..974 => {
                self.log.expel(node);
                self.counts.note("fences gone");
            }
            974..980 => self.write_snapshot(node),
            980..986 => self.trim(),
            986..993 => {
                let client = self.random.below(CLIENT_COUNT as u64) as usize;
                self.end_session(client);
            }
            _ => self.give_up(),
        }
    }

    /// A client asks for a change, or again for the one under way.
    fn ask(&mut self, client: usize) {
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
        let (whose, step) = match &self.clients[client].under_way {
            Some((change, _)) if has_begun => {
                (Whose { client, session, number }, Step::Change { session, number, change: change.clone() })
            }
            _ => (Whose { client, session, number: BEGIN_NUMBER }, Step::Begin { session }),
        };
        self.propose(node, whose, step);
    }

    fn propose(&mut self, node: usize, whose: Whose, step: Step) {
        if self.nodes[node].is_up() {
            let log = &mut self.log;
            let proposer = self.nodes[node].proposer.get_or_insert_with(|| Proposer::new(STORE_ID, log.join(node)));
            proposer.propose(whose, step).unwrap();
        }
    }

    /// A node sends its append, perhaps again.
    fn send(&mut self, node: usize) {
        self.time += self.random.below(3);
        let time = self.time - self.random.below(50);
        if let Some(append) = self.nodes[node].proposer.as_mut().and_then(|proposer| proposer.append(time)) {
            self.network.push((node, append.clone()));
        }
    }

    /// The log carries out an append, and answers.
    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.random.below(self.network.len() as u64) as usize;
        let (node, append) = self.network[at].clone();
        if !self.random.once_in(7) {
            self.network.swap_remove(at);
        }
        let answer = self.log.append(node, &append);
        if self.random.once_in(5) {
            return self.counts.note("answers of the log lost");
        }
        let proposer = self.nodes[node].proposer.as_mut();
        let Some(proposer) = proposer.filter(|proposer| proposer.incarnation() == append.incarnation) else {
            return self.counts.note("appends that came late");
        };
        let fates = proposer.answer(append.number, answer);
        if proposer.is_fenced() {
            self.nodes[node].proposer = None;
            self.refused.push((append.incarnation, append.number));
        }
        if answer == Answer::Trimmed {
            self.counts.note("trimmed before the answer");
        }
        for (whose, fate) in fates {
            match fate {
                Fate::At { slot, step } => {
                    self.check_place(slot, step, whose);
                    self.nodes[node].decided.push((slot, whose));
                }
                Fate::BeforeHead => self.nodes[node].decided.push((self.log.head(), whose)),
                // The client asks again.
                Fate::NotCarriedOut => {}
            }
        }
    }

    /// A node carries out some records, and answers its clients.
    fn follow(&mut self, node: usize) {
        let most = 1 + self.random.below(8) as usize;
        self.follow_up_to(node, most);
    }

    fn follow_up_to(&mut self, node: usize, most: usize) {
        if !self.nodes[node].is_up() {
            self.nodes[node].start();
        }
        let before = self.nodes[node].catalog().followed().unwrap();
        let Some(records) = self.log.read(before.slot, most) else {
            let (snapshot, _) = self.snapshot.clone().unwrap();
            self.nodes[node].start_again(Some(&snapshot));
            return self.counts.note("snapshots loaded");
        };
        if self.random.once_in(20) && !records.is_empty() {
            // A record comes twice, or one is missing.
            let wrong = if self.random.once_in(2) { before.slot } else { before.slot + 2 };
            let refused = self.nodes[node].catalog().follow(wrong, &records);
            assert!(matches!(refused, Err(Error::OutOfOrder { .. })), "{refused:?}");
            self.counts.note("records out of order");
        }
        let verdicts = self.nodes[node].catalog().follow(before.slot + 1, &records).unwrap();
        assert_eq!(verdicts.len(), records.len());
        let now = self.nodes[node].catalog().followed().unwrap();
        assert!(now.time >= before.time && now.slot == before.slot + records.len() as u64);
        let now = now.slot;
        let decided = std::mem::take(&mut self.nodes[node].decided);
        let (known, later) = decided.into_iter().partition(|(slot, _)| *slot <= now);
        self.nodes[node].decided = later;
        let known: Vec<(u64, Whose)> = known;
        for (slot, whose) in known {
            self.tell(node, slot, whose);
        }
    }

    /// A node tells a client what became of its step.
    fn tell(&mut self, node: usize, slot: u64, Whose { client, session, number }: Whose) {
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
        self.counts.note(if matches!(verdict, Verdict::Done(_)) { "changes told" } else { "changes refused" });
        self.told.push(Told { session, number, verdict, after });
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
        self.counts.note("kills");
    }

    /// A node's machine loses power, and the catalog with it.
    fn lose_power(&mut self, node: usize) {
        let snapshot = self.snapshot.as_ref().map(|(path, _)| path.clone());
        self.nodes[node].start_again(snapshot.as_deref());
        self.counts.note("power losses");
    }

    fn write_snapshot(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            let slot = self.nodes[node].slot();
            let path = self.folder.path().join(format!("snapshot{slot}"));
            self.nodes[node].catalog().write_snapshot(&path).unwrap();
            if self.snapshot.as_ref().is_none_or(|(_, newest)| *newest < slot) {
                self.snapshot = Some((path, slot));
            }
        }
    }

    fn trim(&mut self) {
        if let Some((_, slot)) = &self.snapshot {
            self.log.trim(*slot);
        }
    }

    /// A client dies while its change may be under way. Its node ends the session, and another client takes its place.
    fn end_session(&mut self, client: usize) {
        let Client { node, session, has_begun, number, .. } = self.clients[client];
        if !has_begun || !self.nodes[node].is_up() {
            return;
        }
        self.propose(node, Whose { client, session, number: END_NUMBER }, Step::End { session });
        if self.random.once_in(2) {
            // Its last words come after its end.
            let change = self.random_change(client);
            let number = number + 1;
            self.propose(node, Whose { client, session, number }, Step::Change { session, number, change });
            self.counts.note("changes of ended sessions");
        }
        let node = self.random_node();
        self.clients[client] = Client { node, session: 0, has_begun: false, number: 0, under_way: None };
    }

    /// A client goes on without knowing what became of its change.
    fn give_up(&mut self) {
        let client = self.random.below(CLIENT_COUNT as u64) as usize;
        self.clients[client].under_way = None;
    }

    fn random_node(&mut self) -> usize {
        self.random.below(NODE_COUNT as u64) as usize
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn random_change(&mut self, client: usize) -> Change {
        let key = self.random.pick(&ALL_KEYS).to_vec();
        let other = self.random.pick(&ALL_KEYS).to_vec();
        // What the client's node knows, which may be old.
        let known = self.nodes[self.clients[client].node].catalog().object(&key).unwrap();
        match (self.random.below(10), known) {
            (0..3, _) => {
                let extents = vec![self.new_extent(0)];
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
            (3..6, Some(object)) => {
                let offset = self.random.below(4) * 32;
                let extents = vec![self.new_extent(offset)];
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
            (8, Some(object)) => self.made(&key, object.id),
            _ => Change { expect: vec![Expect::Exists(key.clone())], edits: vec![Edit::Remove { key }] },
        }
    }

    fn new_extent(&mut self, offset: u64) -> NewExtent {
        let (write, replica) = (self.id(), self.replica(0));
        let replicas = [replica].into_iter().collect();
        let extent = Extent { offset, length: 64, skip: 0, raw_len: 64, write, replicas, source: None };
        NewExtent { extent, owed: vec![1] }
    }

    fn replica(&mut self, target: u16) -> Replica {
        let place = Place { segment: self.id(), offset: 0, length: 128 };
        Replica { target, place, stored: 64, encoding: "none".parse().unwrap() }
    }

    /// The pending replica of an object is made, if its node knows of one.
    fn made(&mut self, key: &[u8], object: u64) -> Change {
        let catalog = |world: &World| {
            world.nodes.iter().find_map(|node| node.catalog.as_ref().map(|c| c.owed(None, 50).unwrap()))
        };
        let owed = catalog(self).unwrap_or_default().into_iter().find(|(task, _)| task.object == object);
        let Some((task, owed)) = owed else { return Edit::Remove { key: key.to_vec() }.into() };
        let replica = self.replica(task.target);
        Change { expect: vec![Expect::Owed(task, owed.key)], edits: vec![Edit::Made { task, replica }] }
    }

    /// Lets everything settle, and checks the laws.
    pub fn end(&mut self) {
        for node in 0..NODE_COUNT {
            while !self.nodes[node].is_up() || self.nodes[node].slot() < self.log.head() {
                self.follow_up_to(node, 100);
            }
        }
        let reference = Reference::of(&self.folder.path().join("reference"), &self.log.all);
        (0..reference.repeated).for_each(|_| self.counts.note("steps repeated in the log"));
        self.check_nodes(&reference);
        self.check_answers(&reference);
        self.check_refusals();
    }

    /// A step that is said to be in the log is there.
    fn check_place(&self, slot: u64, step: usize, whose: Whose) {
        let proposal = Proposal::decode(&self.log.all[slot as usize - 1], STORE_ID).unwrap();
        let found = match proposal.steps[step] {
            Step::Begin { session } => (session, BEGIN_NUMBER),
            Step::End { session } => (session, END_NUMBER),
            Step::Change { session, number, .. } => (session, number),
        };
        assert_eq!(found, (whose.session, whose.number), "of client {} at {slot}", whose.client);
    }

    /// A step that is said not to be in the log never comes into it.
    fn check_refusals(&self) {
        for record in &self.log.all {
            let Proposal { incarnation, number, .. } = Proposal::decode(record, STORE_ID).unwrap();
            let came = |refused: &(u64, u64)| refused.0 == incarnation && refused.1 <= number;
            assert!(!self.refused.iter().any(came), "number {number} of incarnation {incarnation} was refused");
        }
    }

    /// The indexes of all nodes are equal at equal slots, and so is that of a store that had the same changes without a shared log.
    fn check_nodes(&self, reference: &Reference) {
        let first = self.nodes[0].catalog();
        for node in &self.nodes[1..] {
            assert_eq!(node.catalog().followed().unwrap(), first.followed().unwrap());
            assert!(node.catalog().dump().unwrap() == first.dump().unwrap(), "the indexes of two nodes differ");
        }
        assert!(plain_dump(first) == plain_dump(&reference.catalog), "the index differs from one without a shared log");
    }

    /// Each verdict that a client was told is that of its change in the log, where this came once; and no change takes a place before
    /// one that was answered before it was asked for.
    fn check_answers(&self, reference: &Reference) {
        for Told { session, number, verdict, after } in &self.told {
            let (slot, meant) = &reference.verdicts[&(*session, *number)];
            assert_eq!(meant, verdict, "of change {number} of session {session}");
            assert!(slot > after, "change {number} of session {session} is at {slot}, and {after} was answered before");
        }
    }
}

fn plain_dump(catalog: &Catalog) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = catalog.dump().unwrap();
    records.retain(|(key, _)| !LETTERS_NOT_COMPARED.contains(&key[0]) && key != b"mf");
    records
}
