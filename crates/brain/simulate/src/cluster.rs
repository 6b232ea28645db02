//! [`Cluster`]: what there is to compute and to store with.

use terrace_cost::Work;
use terrace_plan::snapshot::{MAX_TARGETS, MAX_TIERS, Snapshot, SnapshotError, Target, Tier as Level};
use thiserror::Error;

/// A target without a limit holds so many bytes.
pub(crate) const ENDLESS: u64 = u64::MAX >> 8;

/// Where a tier or a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In each node, for the processes there.
    Node,
    /// In one place, for all.
    Shared,
}

/// A link that transfers to and from tiers go over.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes per second.
    pub speed: f64,
    /// Seconds that a message is under way.
    pub latency: f64,
    /// Whether each node has one, or all have the same.
    pub place: Place,
}

/// A performance level: targets that are alike.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Whether each node has its targets, or all share them.
    pub place: Place,
    /// How many targets: in each node, or in all.
    pub targets: usize,
    /// Bytes that a target writes per second.
    pub write: f64,
    /// Bytes that a target reads per second.
    pub read: f64,
    /// Seconds that an operation takes beside its bytes.
    pub latency: f64,
    /// Operations that a target does at a time: their latencies overlap, their bytes do not.
    pub lanes: u16,
    /// Bytes that a target holds; none where there is no limit.
    pub capacity: Option<u64>,
    /// Whether it outlives a reboot.
    pub persistent: bool,
    /// What a target draws while it reads or writes, in watts.
    pub watts: f64,
    /// What a terabyte (10^12 bytes) of it costs, in whatever money.
    pub price: f64,
    /// The index of the link to it, if there is one that counts.
    pub link: Option<usize>,
}

/// Nodes with cores, the tiers that they reach (fastest first), and the processes on them.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes.
    pub nodes: usize,
    /// Cores of each node.
    pub cores: usize,
    /// What a core draws while it encodes or decodes, in watts.
    pub core_watts: f64,
    /// Processes, spread over the nodes in turn.
    pub processes: usize,
    /// The tiers, fastest first.
    pub tiers: Vec<Tier>,
    /// The links.
    pub links: Vec<Link>,
}

/// Why a cluster cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClusterError {
    /// A number of something that must be there is 0.
    #[error("{0} is 0; give at least 1")]
    None(String),
    /// A number is no speed, no time or no price.
    #[error("{what} of {of:?} is {value}; give a number {needed}")]
    Number {
        /// Which number.
        what: &'static str,
        /// Of which tier or link.
        of: String,
        /// What it is.
        value: f64,
        /// What it must be.
        needed: &'static str,
    },
    /// More tiers or targets than can be planned for.
    #[error(
        "a process reaches {tiers} tiers and {targets} targets, and at most {MAX_TIERS} and {MAX_TARGETS} can be planned \
         for; describe several devices as one target that is as quick and as large as they are together"
    )]
    TooMany {
        /// Tiers.
        tiers: usize,
        /// Targets that one process reaches.
        targets: usize,
    },
    /// A tier names a link that is not there.
    #[error("tier {0:?} is behind a link that is not there; describe the link, or leave it out")]
    NoLink(String),
    /// The planner does not take it.
    #[error(transparent)]
    Planner(#[from] SnapshotError),
}

impl Cluster {
    /// Whether it can be.
    ///
    /// # Errors
    /// Any [`ClusterError`].
    pub fn check(&self) -> Result<(), ClusterError> {
        let counts = [("nodes", self.nodes), ("cores", self.cores), ("processes", self.processes)];
        let targets = self.tiers.iter().map(|tier| (format!("targets of tier {:?}", tier.name), tier.targets));
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
        let (tiers, targets) = (self.tiers.len(), self.tiers.iter().map(|tier| tier.targets).sum());
        if tiers > MAX_TIERS || targets > MAX_TARGETS {
            return Err(ClusterError::TooMany { tiers, targets });
        }
        Ok(())
    }

    /// All numbers, with what they are of, and whether they must be above 0.
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

    /// The tiers as a process sees them.
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
        let mut targets = Vec::new();
        for (index, tier) in self.tiers.iter().enumerate() {
            let link = tier.link.map(|link| &self.links[link]);
            let most = link.map_or(f64::INFINITY, |link| link.speed);
            targets.extend((0..tier.targets).map(|_| Target {
                tier: index as u8,
                domain: 0,
                read: tier.read.min(most),
                write: tier.write.min(most),
                latency: tier.latency + link.map_or(0.0, |link| link.latency),
                free: tier.capacity.unwrap_or(ENDLESS),
                reserved: 0,
                load: 0.0,
                lanes: tier.lanes,
                plain: false,
                up: true,
            }));
        }
        targets.iter_mut().zip(0..).for_each(|(target, domain)| target.domain = domain);
        Ok(Snapshot::new(levels.collect(), targets, self.core_watts)?.working(self.works()))
    }

    /// What each target that a process reaches works: links draw nothing.
    pub(crate) fn works(&self) -> Vec<Work> {
        let works = |tier: &Tier| Work { read: 1.0 / tier.read, write: 1.0 / tier.write, latency: tier.latency };
        self.tiers.iter().flat_map(|tier| std::iter::repeat_n(works(tier), tier.targets)).collect()
    }

    /// The node of a process.
    pub(crate) fn node(&self, process: usize) -> usize {
        process % self.nodes
    }
}
