//! The tiers of an evaluation: what a cluster of the papers, or a node of today, gives two cores.

use std::fmt::Write;
use std::path::Path;

use terrace_simulate::{Cluster, Place, Tier as Simulated};

use super::Contender;
use super::run::RANKS;

/// Cores.
const CORES: usize = 2;

/// A tier: its name, bytes written and read in a second by all of its targets together, seconds of latency, targets.
#[derive(Clone, Copy)]
struct Tier {
    name: &'static str,
    write: f64,
    read: f64,
    latency: f64,
    targets: usize,
}

const fn tier(name: &'static str, write: f64, read: f64, latency: f64, targets: usize) -> Tier {
    Tier { name, write, read, latency, targets }
}

/// Tiers, as they are in the papers' cluster, or today.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Profile {
    /// The papers' cluster: of each tier's bandwidth what two of its 2,560 processes had.
    Ares,
    /// Two cores' share of a node of today: memory, NVMe, a network file system, an object store.
    Node,
    /// HReplica's Fig. 1: 8 NVMe, 8 SSDs and 16 disks, or 32 disks, each device as quick as in the papers' cluster.
    Mixed,
    /// The papers' cluster with more targets, for more replicas than three: 2 NVMe, 4 burst, 6 pfs.
    Wide,
}

impl Profile {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Ares => "ares",
            Profile::Node => "node",
            Profile::Mixed => "mixed",
            Profile::Wide => "wide",
        }
    }

    /// Those that a contender may use, the quickest first.
    fn tiers(self, contender: Contender) -> Vec<Tier> {
        match self {
            Profile::Ares => vec![
                tier("ram", 500e6, 500e6, 0.0, 1),
                tier("nvme", 60e6, 120e6, 0.0, 1),
                tier("burst", 3.1e6, 3.1e6, 0.0, 2),
                tier("pfs", 1.0e6, 1.0e6, 0.008, 4),
            ],
            Profile::Node => vec![
                tier("ram", 2500e6, 2500e6, 0.0, 1),
                tier("nvme", 500e6, 1000e6, 0.0001, 1),
                tier("nfs", 100e6, 100e6, 0.001, 2),
                tier("s3", 40e6, 40e6, 0.02, 4),
            ],
            Profile::Mixed if contender.is_slowest() => vec![tier("disk", 1.33e6, 1.33e6, 0.008, 4)],
            Profile::Mixed => vec![
                tier("nvme", 7.5e6, 15e6, 0.0, 1),
                tier("ssd", 3.1e6, 3.1e6, 0.0, 2),
                tier("disk", 0.67e6, 0.67e6, 0.008, 2),
            ],
            Profile::Wide => vec![
                tier("nvme", 60e6, 120e6, 0.0, 2),
                tier("burst", 3.1e6, 3.1e6, 0.0, 4),
                tier("pfs", 1.0e6, 1.0e6, 0.008, 6),
            ],
        }
    }

    /// The name of its slowest tier.
    pub fn slowest(self) -> &'static str {
        match self {
            Profile::Ares | Profile::Wide => "pfs",
            Profile::Node => "s3",
            Profile::Mixed => "disk",
        }
    }

    /// A node with these tiers, for the simulator. Capacities are what the first tiers may hold in all, in bytes.
    pub fn cluster(self, contender: Contender, capacities: [Option<f64>; 3]) -> Cluster {
        let limited = self.tiers(contender).into_iter().zip(capacities.into_iter().chain([None]));
        let tiers = limited.filter(|(_, capacity)| *capacity != Some(0.0)).map(|(tier, capacity)| {
            let each = |total: f64| total / tier.targets as f64;
            Simulated {
                name: tier.name.into(),
                place: Place::Shared,
                targets: tier.targets,
                write: each(tier.write),
                read: each(tier.read),
                latency: tier.latency,
                lanes: 64,
                capacity: capacity.map(|bytes| each(bytes) as u64),
                persistent: true,
                watts: 5.0,
                price: 0.0,
                link: None,
            }
        });
        Cluster {
            nodes: 1,
            cores: CORES,
            core_watts: 10.0,
            processes: RANKS,
            tiers: tiers.collect(),
            links: Vec::new(),
        }
    }

    /// The tiers' part of a configuration, below `folder`; `capacities` are what the first tiers may hold in all, in bytes:
    /// one that may hold nothing is left out.
    pub fn config(self, contender: Contender, folder: &Path, capacities: [Option<f64>; 3]) -> String {
        let mut text = String::new();
        for (tier, capacity) in self.tiers(contender).iter().zip(capacities.into_iter().chain([None])) {
            if capacity == Some(0.0) {
                continue;
            }
            let Tier { name, write, read, latency, targets } = *tier;
            let each = |total: f64| (total / targets as f64).round();
            let paths: Vec<String> = (0..targets).map(|n| format!("'{}/{name}{n}'", folder.display())).collect();
            let capacity = capacity.map_or(String::new(), |bytes| format!("capacity = '{}B'\n", each(bytes)));
            let _ = write!(
                text,
                "[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = [{}]\n{capacity}\
                 throttle = {{ read = '{}B/s', write = '{}B/s', latency = '{}us' }}\n",
                paths.join(", "),
                each(read),
                each(write),
                (latency * 1e6).round(),
            );
        }
        text
    }
}
