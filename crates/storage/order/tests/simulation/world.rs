//! All nodes and clients, the log, and the network between them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use tempfile::TempDir;
use terrace_catalog::{Error, Followed};
use terrace_format::{Place, Proposal, Step, TargetId};
use terrace_order::{Answer, Append, Fate, ModelOrder, OfferedSnapshot, Order, Proposer, Records};
use terrace_testkit::Random;

use crate::clients::{Client, Told};
use crate::node::{BEGIN_NUMBER, END_NUMBER, Node, STORE_ID, Whose};

pub const NODE_COUNT: usize = 3;
pub const CLIENT_COUNT: usize = 4;
/// The things that happen in any thirty runs.
const ALL_FAULTS: [&str; 25] = [
    "answers of the log lost",
    "answers to clients lost",
    "appends that came late",
    "changes in pieces",
    "changes of ended sessions",
    "changes refused",
    "changes told",
    "changes with stale frames",
    "fences gone",
    "floors raised",
    "floors refused",
    "frames freed",
    "frames lost",
    "joins refused",
    "kills",
    "nodes left",
    "places not freed because they are pinned",
    "power losses",
    "records out of order",
    "replicas dropped",
    "replicas kept",
    "snapshots loaded",
    "steps repeated in the log",
    "trimmed before the answer",
    "trims left to the keeper",
];

/// How often each thing happened.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    pub fn note(&mut self, what: &'static str) {
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
    pub random: Random,
    pub folder: TempDir,
    /// The log, as each node uses it.
    pub logs: Vec<ModelOrder>,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    /// Appends on their way to the log; some of them for a long time, or repeatedly.
    pub network: Vec<(usize, Append)>,
    pub sessions: u64,
    ids: u64,
    time: u64,
    pub told: Vec<Told>,
    /// The first append of each incarnation that a node was told is not in the log.
    pub refused: Vec<(u64, u64)>,
    /// The highest slot of an answer that a client had.
    pub answered: u64,
    /// The frames that were ever synced.
    pub ever_synced: HashSet<(TargetId, Place)>,
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
            logs: ModelOrder::for_nodes(&["0", "1", "2"]),
            nodes,
            clients,
            network: Vec::new(),
            sessions: 0,
            ids: 0,
            time: 1000,
            told: Vec::new(),
            refused: Vec::new(),
            answered: 0,
            ever_synced: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Lets one thing happen.
    pub fn act(&mut self) {
        let node = self.random_node();
        match self.random.below(1000) {
            0..230 => {
                let client = self.random.below(CLIENT_COUNT as u64) as usize;
                self.ask(client);
            }
            230..400 => self.send(node),
            400..590 => self.deliver(),
            590..760 => self.follow(node),
            760..790 => self.make(node),
            790..825 => self.report(node),
            825..860 => self.sync(node),
            860..886 => self.keep(node),
            886..920 => self.free(node),
            920..951 => self.open(node),
            951..955 => self.close(node),
            955..958 => self.kill(node),
            958..960 => self.lose_power(node),
            960..964 => {
                self.logs[node].expel();
                self.counts.note("fences gone");
            }
            964..970 => self.write_snapshot(node),
            970..981 => self.trim(node),
            981..988 => {
                let client = self.random.below(CLIENT_COUNT as u64) as usize;
                self.end_session(client);
            }
            _ => self.give_up(),
        }
    }

    /// A node sends its append, perhaps again.
    pub fn send(&mut self, node: usize) {
        self.time += self.random.below(3);
        let time = self.time - self.random.below(50);
        if let Some(append) = self.nodes[node].proposer.as_mut().and_then(|proposer| proposer.append(time)) {
            self.network.push((node, append.clone()));
        }
    }

    /// The log carries out an append, and answers.
    pub fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let at = self.random.below(self.network.len() as u64) as usize;
        let (node, append) = self.network[at].clone();
        if !self.random.once_in(7) {
            self.network.swap_remove(at);
        }
        let answer = self.logs[node].append(&append).unwrap();
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
                    self.nodes[node].decided.extend(whose.map(|whose| (slot, whose)));
                }
                Fate::BeforeHead => {
                    let head = self.logs[node].head().unwrap();
                    self.nodes[node].decided.extend(whose.map(|whose| (head, whose)));
                }
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

    pub fn follow_up_to(&mut self, node: usize, most: usize) {
        if !self.nodes[node].is_up() {
            self.nodes[node].start();
        }
        let before = self.nodes[node].catalog().followed().unwrap();
        let Records::Next(records) = self.logs[node].read(before.slot, most).unwrap() else {
            self.start_from_snapshot(node);
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
            self.deliver_verdict(node, slot, whose);
        }
    }

    fn kill(&mut self, node: usize) {
        if let Some(proposer) = self.nodes[node].proposer.as_ref().filter(|_| self.random.once_in(3)) {
            self.logs[node].leave(proposer.incarnation()).unwrap();
            self.counts.note("nodes left");
        }
        self.nodes[node].kill();
        self.counts.note("kills");
    }

    /// A node's machine loses power, and the catalog and perhaps the file of its incarnation with it.
    fn lose_power(&mut self, node: usize) {
        self.start_from_snapshot(node);
        if self.random.once_in(3) {
            self.nodes[node].last_incarnation = None;
        }
        self.nodes[node].lost_power = true;
        if self.nodes[node].disk.lose_power(&mut self.random) > 0 {
            self.counts.note("frames lost");
        }
        self.counts.note("power losses");
    }

    fn write_snapshot(&mut self, node: usize) {
        if self.nodes[node].is_up() {
            let Followed { slot, chain, .. } = self.nodes[node].catalog().followed().unwrap();
            let path = self.folder.path().join(format!("snapshot{slot}"));
            self.nodes[node].catalog().write_snapshot(&path).unwrap();
            let length = path.metadata().unwrap().len();
            let place = path.to_str().unwrap().to_owned();
            self.logs[node].offer_snapshot(&OfferedSnapshot { slot, chain, length, place }).unwrap();
        }
    }

    /// The newest snapshot of all nodes.
    fn newest_snapshot(&self) -> Option<OfferedSnapshot> {
        self.logs[0].snapshots().unwrap().into_values().max_by_key(|snapshot| snapshot.slot)
    }

    /// Makes a node's catalog again, from the newest snapshot if there is one.
    fn start_from_snapshot(&mut self, node: usize) {
        let snapshot = self.newest_snapshot();
        self.nodes[node].start_again(snapshot.as_ref().map(|snapshot| Path::new(&snapshot.place)));
        if let Some(OfferedSnapshot { slot, chain, .. }) = snapshot {
            let followed = self.nodes[node].catalog().followed().unwrap();
            assert_eq!((followed.slot, followed.chain), (slot, chain));
        }
    }

    fn trim(&mut self, node: usize) {
        let Some(incarnation) = self.nodes[node].proposer.as_ref().map(Proposer::incarnation) else { return };
        if !self.logs[node].keep(incarnation).unwrap() {
            return self.counts.note("trims left to the keeper");
        }
        if let Some(OfferedSnapshot { slot, .. }) = self.newest_snapshot() {
            self.logs[node].trim(slot).unwrap();
        }
    }

    pub fn random_node(&mut self) -> usize {
        self.random.below(NODE_COUNT as u64) as usize
    }

    pub fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// A step that is said to be in the log is there.
    fn check_place(&self, slot: u64, step: usize, whose: Option<Whose>) {
        let Some(whose) = whose else { return };
        let proposal = Proposal::decode(&self.logs[0].all()[slot as usize - 1], STORE_ID).unwrap();
        let found = match proposal.steps[step] {
            Step::Begin { session } => (session, BEGIN_NUMBER),
            Step::End { session } => (session, END_NUMBER),
            Step::Change { session, number, .. } | Step::Whole { session, number, .. } => (session, number),
            ref step => unreachable!("{step:?} is no client's"),
        };
        assert_eq!(found, (whose.session, whose.number), "of client {} at {slot}", whose.client);
    }
}
