//! The servers: cores, links and targets. Each serves requests in order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::choose::Piece;
use crate::cluster::{Cluster, Place};
use crate::heap::Moment;

/// A server with a number of concurrent operations, whose bytes it transfers one operation after the other.
#[derive(Debug)]
struct Server {
    /// The moment at which all accepted bytes are transferred.
    free: f64,
    /// The moment at which each used lane becomes free.
    lanes: BinaryHeap<Reverse<Moment>>,
    most: usize,
    /// The time that it worked, in seconds.
    busy: f64,
}

impl Server {
    fn new(most: usize) -> Server {
        Server { free: 0.0, lanes: BinaryHeap::new(), most, busy: 0.0 }
    }

    /// Serves an operation that arrives now, and returns the moment of its completion. Its bytes follow those of
    /// earlier operations; its latency overlaps with theirs.
    fn serve(&mut self, now: f64, seconds: f64, latency: f64) -> f64 {
        let lane = if self.lanes.len() < self.most { None } else { self.lanes.pop() };
        let begin = lane.map_or(now, |Reverse(Moment(free))| free.max(now));
        if seconds > 0.0 {
            self.free = self.free.max(begin) + seconds;
        }
        let end = if seconds > 0.0 { self.free + latency } else { begin + latency };
        self.busy += seconds + latency;
        self.lanes.push(Reverse(Moment(end)));
        end
    }
}

/// A request: the server, the transfer time, and the latency, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serve {
    server: u32,
    seconds: f64,
    latency: f64,
}

/// The servers of a cluster: the nodes' cores, then the links, then the targets.
pub(crate) struct Machine<'a> {
    cluster: &'a Cluster,
    servers: Vec<Server>,
    /// The index of the first server of each link and of each tier.
    links: Vec<usize>,
    tiers: Vec<usize>,
    /// The tier and the number within the tier of each target that a process sees.
    seen: Vec<(usize, usize)>,
}

impl<'a> Machine<'a> {
    pub fn new(cluster: &'a Cluster) -> Machine<'a> {
        let mut servers: Vec<Server> = (0..cluster.nodes).map(|_| Server::new(cluster.cores)).collect();
        let mut add = |count: usize, lanes: usize| {
            servers.extend((0..count).map(|_| Server::new(lanes)));
            servers.len() - count
        };
        let copies = |link: &crate::Link| if link.place == Place::Node { cluster.nodes } else { 1 };
        let links = cluster.links.iter().map(|link| add(copies(link), usize::MAX)).collect();
        let tier = |tier: &crate::Tier| add(cluster.own_targets(tier), tier.lanes.into());
        let tiers = cluster.tiers.iter().map(tier).collect();
        let seen = cluster.tiers.iter().enumerate();
        let seen = seen.flat_map(|(at, tier)| (0..cluster.reached(tier)).map(move |number| (at, number))).collect();
        Machine { cluster, servers, links, tiers, seen }
    }

    /// Serves a request that arrives now, and returns the moment of its completion.
    pub fn serve(&mut self, now: f64, what: Serve) -> f64 {
        self.servers[what.server as usize].serve(now, what.seconds, what.latency)
    }

    /// Returns the request for encoding or decoding on a node.
    pub fn compute(&self, node: usize, seconds: f64) -> Serve {
        Serve { server: node as u32, seconds: 0.0, latency: seconds }
    }

    /// Returns the tier of a target that a process sees.
    pub fn tier(&self, target: u16) -> usize {
        self.seen[usize::from(target)].0
    }

    /// Returns the global index of a target that a node sees.
    pub fn target(&self, node: usize, target: u16) -> usize {
        let (tier, number) = self.seen[usize::from(target)];
        let targets = |tier: usize| self.cluster.tiers[tier].targets;
        match self.cluster.tiers[tier].place {
            Place::Shared => self.tiers[tier] + number,
            Place::Node => self.tiers[tier] + node * targets(tier) + number,
            Place::Peers(of) => {
                let peer = (node + 1 + number / targets(of)) % self.cluster.nodes;
                self.tiers[of] + peer * targets(of) + number % targets(of)
            }
        }
    }

    /// Returns the number of servers; targets have the indexes of their servers.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Returns the requests of a write: through the link, then on the target.
    pub fn write(&self, node: usize, piece: &Piece) -> [Option<Serve>; 2] {
        let tier = &self.cluster.tiers[self.tier(piece.target)];
        [self.link(node, piece), Some(self.transfer(node, piece, tier.write))]
    }

    /// Returns the requests of a read: from the target, then through the link.
    pub fn read(&self, node: usize, piece: &Piece) -> [Option<Serve>; 2] {
        let tier = &self.cluster.tiers[self.tier(piece.target)];
        [Some(self.transfer(node, piece, tier.read)), self.link(node, piece)]
    }

    /// Estimates the moment at which a read that starts now would complete.
    pub fn estimate(&self, now: f64, node: usize, piece: &Piece) -> f64 {
        let waits = (self.servers[self.target(node, piece.target)].free - now).max(0.0);
        let serves = self.read(node, piece).into_iter().flatten();
        waits + serves.map(|serve| serve.seconds + serve.latency).sum::<f64>() + f64::from(piece.decode)
    }

    /// Returns the energy of targets and cores while they worked, in joules.
    pub fn joules(&self) -> f64 {
        let busy = |from: usize, count: usize| self.servers[from..from + count].iter().map(|s| s.busy).sum::<f64>();
        let cores = busy(0, self.cluster.nodes) * self.cluster.core_watts;
        let tiers = self.cluster.tiers.iter().zip(&self.tiers);
        cores + tiers.map(|(tier, from)| tier.watts * busy(*from, self.cluster.own_targets(tier))).sum::<f64>()
    }

    fn transfer(&self, node: usize, piece: &Piece, speed: f64) -> Serve {
        let latency = self.cluster.tiers[self.tier(piece.target)].latency;
        let server = self.target(node, piece.target) as u32;
        Serve { server, seconds: f64::from(piece.stored) / speed, latency }
    }

    fn link(&self, node: usize, piece: &Piece) -> Option<Serve> {
        let index = self.cluster.tiers[self.tier(piece.target)].link?;
        let link = &self.cluster.links[index];
        let server = self.links[index] + if link.place == Place::Node { node } else { 0 };
        Some(Serve { server: server as u32, seconds: f64::from(piece.stored) / link.speed, latency: link.latency })
    }
}
