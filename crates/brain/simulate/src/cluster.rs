//! [`Cluster`]: the computing and storage resources.

use terrace_cost::Work;
use terrace_plan::snapshot::{MAX_TARGETS, MAX_TIERS, Snapshot, SnapshotError, Target, Tier as Level};
use thiserror::Error;

/// The capacity in bytes of a target without a limit.
pub(crate) const UNLIMITED_CAPACITY_BYTES: u64 = u64::MAX >> 8;

/// The location of a tier or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In each node, for the processes of that node.
    Node,
    /// In the other nodes, for the processes of each node: the targets of the tier with this index, which is in each node.
    Peers(usize),
    /// Shared by all nodes.
    Shared,
}

/// A link over which data are transferred to and from tiers.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes per second.
    pub speed: f64,
    /// The latency of a message, in seconds.
    pub latency: f64,
    /// Whether each node has its own link, or all share one.
    pub place: Place,
}

/// A performance level of identical targets.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether each node has its own targets, or all share them.
    pub place: Place,
    /// The number of targets: in each node, or in total. Not used for a tier of peers, whose targets are those of another
    /// tier.
    pub targets: usize,
    /// The write speed of a target, in bytes per second.
    pub write: f64,
    /// The read speed of a target, in bytes per second.
    pub read: f64,
    /// The latency of an operation in addition to the transfer of its bytes, in seconds.
    pub latency: f64,
    /// The number of concurrent operations of a target: their latencies overlap, their transfers do not.
    pub lanes: u16,
    /// The capacity of a target in bytes; None if it has no limit.
    pub capacity: Option<u64>,
    /// Whether data on the tier survive a reboot.
    pub persistent: bool,
    /// The power of a target while it reads or writes, in watts.
    pub watts: f64,
    /// The price of a terabyte (10^12 bytes), in any currency.
    pub price: f64,
    /// The index of the link to the tier, if there is one that matters.
    pub link: Option<usize>,
}

/// Nodes with cores, the tiers that they reach (fastest first), and the processes on them.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of cores of each node.
    pub cores: usize,
    /// The power of a core while it encodes or decodes, in watts.
    pub core_watts: f64,
    /// The number of processes, which are distributed over the nodes in turn.
    pub processes: usize,
    /// The tiers, fastest first.
    pub tiers: Vec<Tier>,
    /// The links.
    pub links: Vec<Link>,
}

/// Why a cluster is not valid.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClusterError {
    /// A number that must be positive is 0.
    #[error("{0} is 0; give at least 1")]
    None(String),
    /// A number is not a valid speed, time or price.
    #[error("{what} of {of:?} is {value}; give a number {needed}")]
    Number {
        /// The name of the number.
        what: &'static str,
        /// The name of the tier or link.
        of: String,
        /// Its value.
        value: f64,
        /// The requirement for it.
        needed: &'static str,
    },
    /// There are more tiers or targets than the planner supports.
    #[error(
        "a process reaches {tiers} tiers and {targets} targets, and at most {MAX_TIERS} and {MAX_TARGETS} can be planned \
         for; describe several devices as one target that is as quick and as large as they are together"
    )]
    TooMany {
        /// The number of tiers.
        tiers: usize,
        /// The number of targets that one process reaches.
        targets: usize,
    },
    /// A tier names a link that does not exist.
    #[error("tier {0:?} is behind a link that is not there; describe the link, or leave it out")]
    NoLink(String),
    /// A tier of peers names no tier that is in each node, or a link is between peers.
    #[error("{0:?} is of the peers of a tier that is not in each node; name one that is")]
    NoPeers(String),
    /// The planner rejects the cluster.
    #[error(transparent)]
    Planner(#[from] SnapshotError),
}

impl Cluster {
    /// Checks the cluster.
    ///
    /// # Errors
    /// Any [`ClusterError`].
    pub fn check(&self) -> Result<(), ClusterError> {
        let counts = [("nodes", self.nodes), ("cores", self.cores), ("processes", self.processes)];
        let own = self.tiers.iter().filter(|tier| !matches!(tier.place, Place::Peers(_)));
        let targets = own.map(|tier| (format!("targets of tier {:?}", tier.name), tier.targets));
        let lanes = self.tiers.iter().map(|tier| (format!("lanes of tier {:?}", tier.name), tier.lanes.into()));
        let tiers = [("the number of tiers".to_owned(), self.tiers.len())];
        let counts = counts.map(|(name, count)| (name.to_owned(), count)).into_iter();
        if let Some((name, _)) = counts.chain(tiers).chain(targets).chain(lanes).find(|(_, count)| *count == 0) {
            return Err(ClusterError::None(name));
        }
        for (what, of, value, above) in self.numbers() {
            if !(value.is_finite() && value >= 0.0 && !(above && value == 0.0)) {
                let needed = if above { "above 0" } else { "of at least 0" };
                return Err(ClusterError::Number { what, of: of.to_owned(), value, needed });
            }
        }
        if let Some(tier) = self.tiers.iter().find(|tier| tier.link.is_some_and(|link| link >= self.links.len())) {
            return Err(ClusterError::NoLink(tier.name.clone()));
        }
        let in_each = |of: usize| self.tiers.get(of).is_some_and(|tier| tier.place == Place::Node);
        let wrong = |place: Place| matches!(place, Place::Peers(of) if !in_each(of));
        let wrong_link = self.links.iter().find(|link| matches!(link.place, Place::Peers(_)));
        let wrong_tier = self.tiers.iter().find(|tier| wrong(tier.place)).map(|tier| &tier.name);
        if let Some(name) = wrong_tier.or(wrong_link.map(|link| &link.name)) {
            return Err(ClusterError::NoPeers(name.clone()));
        }
        let (tiers, targets) = (self.tiers.len(), self.tiers.iter().map(|tier| self.reached(tier)).sum());
        if tiers > MAX_TIERS || targets > MAX_TARGETS {
            return Err(ClusterError::TooMany { tiers, targets });
        }
        Ok(())
    }

    /// Returns all numbers with their name and their tier or link, and whether they must be positive.
    fn numbers(&self) -> Vec<(&'static str, &str, f64, bool)> {
        let mut numbers = vec![("core_watts", "the cluster", self.core_watts, false)];
        for tier in &self.tiers {
            numbers.extend(
                [("write", tier.write, true), ("read", tier.read, true)].map(|(n, v, a)| (n, &*tier.name, v, a)),
            );
            let others = [("latency", tier.latency), ("watts", tier.watts), ("price", tier.price)];
            numbers.extend(others.map(|(name, value)| (name, &*tier.name, value, false)));
        }
        for link in &self.links {
            numbers.extend([("speed", &*link.name, link.speed, true), ("latency", &*link.name, link.latency, false)]);
        }
        numbers
    }

    /// Returns the tiers as a process sees them.
    ///
    /// # Errors
    /// Any [`ClusterError`].
    pub fn snapshot(&self) -> Result<Snapshot, ClusterError> {
        self.check()?;
        let levels = self.tiers.iter().map(|tier| Level {
            name: tier.name.clone(),
            persistent: tier.persistent,
            watts: tier.watts,
        });
        let mut targets: Vec<Target> = Vec::new();
        // With peers, nodes are failure domains: the own one is 0, and a peer's number is its distance.
        let has_peers = self.tiers.iter().any(|tier| matches!(tier.place, Place::Peers(_)));
        for (index, tier) in self.tiers.iter().enumerate() {
            let link = tier.link.map(|link| &self.links[link]);
            let most = link.map_or(f64::INFINITY, |link| link.speed);
            let first = self.nodes + targets.len();
            let domain = |number: usize| match tier.place {
                Place::Node if has_peers => 0,
                Place::Peers(of) => 1 + number / self.tiers[of].targets,
                Place::Node | Place::Shared => first + number,
            };
            targets.extend((0..self.reached(tier)).map(|number| Target {
                tier: index as u8,
                domain: domain(number) as u32,
                read: tier.read.min(most),
                write: tier.write.min(most),
                latency: tier.latency + link.map_or(0.0, |link| link.latency),
                free: self.holder(tier).capacity.unwrap_or(UNLIMITED_CAPACITY_BYTES),
                reserved: 0,
                load: 0.0,
                lanes: tier.lanes,
                plain: false,
                near: false,
                up: true,
            }));
        }
        Ok(Snapshot::new(levels.collect(), targets, self.core_watts)?.working(self.works()))
    }

    /// Returns how long each target that a process reaches works for an operation and for a byte. Time on links is left out:
    /// they draw no power.
    pub(crate) fn works(&self) -> Vec<Work> {
        let works = |tier: &Tier| Work { read: 1.0 / tier.read, write: 1.0 / tier.write, latency: tier.latency };
        self.tiers.iter().flat_map(|tier| std::iter::repeat_n(works(tier), self.reached(tier))).collect()
    }

    /// Returns the tier that a tier's targets belong to: another one for peers.
    pub(crate) fn holder<'a>(&'a self, tier: &'a Tier) -> &'a Tier {
        if let Place::Peers(of) = tier.place { &self.tiers[of] } else { tier }
    }

    /// Returns the number of targets of a tier that a process reaches.
    pub(crate) fn reached(&self, tier: &Tier) -> usize {
        let targets = self.holder(tier).targets;
        if matches!(tier.place, Place::Peers(_)) { (self.nodes - 1) * targets } else { targets }
    }

    /// Returns the number of targets of a tier in all, without those of another tier.
    pub(crate) fn own_targets(&self, tier: &Tier) -> usize {
        match tier.place {
            Place::Node => self.nodes * tier.targets,
            Place::Shared => tier.targets,
            Place::Peers(_) => 0,
        }
    }

    /// Returns the node of a process.
    pub(crate) fn node(&self, process: usize) -> usize {
        process % self.nodes
    }
}
