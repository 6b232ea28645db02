//! The tiers of an evaluation: the share that two cores have of a cluster of the papers, or of a modern node.

use std::fmt::Write;
use std::path::Path;

use terrace_simulate::{Cluster, Place, Tier as Simulated};

use super::{Contender, RANK_COUNT};

/// The number of cores.
const CORE_COUNT: usize = 2;

/// A tier: its name, the bytes written and read per second by all of its targets together, seconds of latency, and
/// number of targets.
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

/// A set of tiers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Profile {
    /// The papers' cluster: two processes' share, of 2,560, of each tier's bandwidth.
    Ares,
    /// Two cores' share of a modern node: memory, NVMe, a network file system, an object store.
    Node,
    /// HReplica's Fig. 1: 8 NVMe, 8 SSDs and 16 disks, or 32 disks. Each device is as fast as in the papers' cluster.
    Mixed,
    /// The papers' cluster with more targets, for more than three replicas: 2 NVMe, 4 burst, 6 pfs.
    Wide,
}

impl Profile {
    /// Returns the name for rows.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Ares => "ares",
            Profile::Node => "node",
            Profile::Mixed => "mixed",
            Profile::Wide => "wide",
        }
    }

    /// Lists the tiers that a contender may use, the quickest first.
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

    /// Returns the name of the slowest tier.
    pub fn slowest(self) -> &'static str {
        match self {
            Profile::Ares | Profile::Wide => "pfs",
            Profile::Node => "s3",
            Profile::Mixed => "disk",
        }
    }

    /// Describes a node with these tiers for the simulator. `capacities` limits the first tiers, in bytes.
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
            cores: CORE_COUNT,
            core_watts: 10.0,
            processes: RANK_COUNT,
            tiers: tiers.collect(),
            links: Vec::new(),
        }
    }

    /// Writes the tiers of a configuration, below `folder`. `capacities` limits the first tiers, in bytes; a tier with
    /// a capacity of 0 is left out.
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
