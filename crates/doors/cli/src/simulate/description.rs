//! The description file of a simulation: its keys, and the checks of their values.

use std::time::Duration;

use serde::Deserialize;
use terrace::Encoding;
use terrace::config::{Bytes, Rate, Time};
use terrace_cost::Expected;
use terrace_simulate::{self as simulated, Cluster, ClusterError, Place};

use super::error::{DescriptionError, MAX_SIMULATED_BLOCKS};
use super::policy::Asked;

/// The longest block, because sizes are computed in 32 bits.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    cluster: Machines,
    #[serde(default, rename = "link")]
    links: Vec<Link>,
    #[serde(default, rename = "tier")]
    pub tiers: Vec<Tier>,
    pub workload: Workload,
    #[serde(default)]
    pub data: Data,
    #[serde(default, rename = "policy")]
    pub policies: Vec<Asked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    #[serde(default = "one")]
    nodes: usize,
    cores: usize,
    processes: usize,
    #[serde(default = "core_watts")]
    core_watts: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    name: String,
    speed: Rate,
    #[serde(default = "at_once")]
    latency: Time,
    #[serde(default)]
    shared: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    pub name: String,
    #[serde(default)]
    shared: bool,
    /// The tier to whose targets on other nodes this tier leads.
    peers_of: Option<String>,
    #[serde(default = "one")]
    targets: usize,
    write: Option<Rate>,
    read: Option<Rate>,
    #[serde(default = "at_once")]
    latency: Time,
    #[serde(default = "lanes")]
    lanes: u16,
    capacity: Option<Bytes>,
    #[serde(default = "yes")]
    persistent: bool,
    #[serde(default)]
    watts: f64,
    #[serde(default)]
    price: f64,
    link: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    object: Bytes,
    #[serde(default = "one")]
    pub objects: usize,
    #[serde(default = "one")]
    pub steps: usize,
    #[serde(default = "one")]
    pub under_way: usize,
    #[serde(default = "mebibyte")]
    block: Bytes,
    #[serde(default = "at_once")]
    pub computing: Time,
    #[serde(default)]
    pub reads: usize,
    #[serde(default = "one_read")]
    pub expected_reads: f64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    #[serde(default)]
    pub files: Vec<String>,
    #[serde(default, rename = "encoding")]
    encodings: Vec<Measured>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    name: String,
    compress: Rate,
    decompress: Rate,
    ratio: f64,
}

fn one() -> usize {
    1
}

fn lanes() -> u16 {
    32
}

fn yes() -> bool {
    true
}

fn core_watts() -> f64 {
    10.0
}

fn one_read() -> f64 {
    1.0
}

fn mebibyte() -> Bytes {
    Bytes(1 << 20)
}

fn at_once() -> Time {
    Time(Duration::ZERO)
}

impl Description {
    pub fn parse(text: &str) -> Result<Description, DescriptionError> {
        let description: Description = toml::from_str(text)?;
        let tiers = || description.tiers.iter().map(|tier| &*tier.name);
        let policies = || description.policies.iter().map(|policy| &*policy.name);
        distinct("tier", tiers())?;
        distinct("policy", policies())?;
        distinct("link", description.links.iter().map(|link| &*link.name))?;
        for (what, none) in [("tier", tiers().next().is_none()), ("policy", policies().next().is_none())] {
            if none {
                return Err(DescriptionError::Missing(what));
            }
        }
        let of = &description.workload;
        for (key, value) in [("objects", of.objects), ("steps", of.steps), ("under_way", of.under_way)] {
            if value == 0 {
                return Err(DescriptionError::None { key });
            }
        }
        if !(of.expected_reads.is_finite() && of.expected_reads >= 0.0) {
            return Err(DescriptionError::Reads(of.expected_reads));
        }
        if !description.data.files.is_empty() && !description.data.encodings.is_empty() {
            return Err(DescriptionError::Both);
        }
        Ok(description)
    }

    pub fn cluster(&self) -> Result<Cluster, DescriptionError> {
        let place = |shared: bool| if shared { Place::Shared } else { Place::Node };
        let link_of = |tier: &Tier| {
            let Some(name) = &tier.link else { return Ok(None) };
            let found = self.links.iter().position(|link| link.name == *name);
            let missing = || DescriptionError::Link { tier: tier.name.clone(), link: name.clone() };
            found.map(Some).ok_or_else(missing)
        };
        let speed = |tier: &Tier, key, value: Option<Rate>| {
            let missing = || DescriptionError::Speed { tier: tier.name.clone(), key };
            value.map(|rate| rate.0 as f64).ok_or_else(missing)
        };
        let of_its_own = |tier: &Tier| {
            Ok::<_, DescriptionError>(simulated::Tier {
                name: tier.name.clone(),
                place: place(tier.shared),
                targets: tier.targets,
                write: speed(tier, "write", tier.write)?,
                read: speed(tier, "read", tier.read)?,
                latency: tier.latency.0.as_secs_f64(),
                lanes: tier.lanes,
                capacity: tier.capacity.map(|capacity| capacity.0),
                persistent: tier.persistent,
                watts: tier.watts,
                price: tier.price,
                link: link_of(tier)?,
            })
        };
        let tier = |tier: &Tier| {
            let Some(holder) = &tier.peers_of else { return of_its_own(tier) };
            let missing = || ClusterError::NoPeers(tier.name.clone());
            let at = self.tiers.iter().position(|other| other.name == *holder).ok_or_else(missing)?;
            let holder = self.tiers.get(at).filter(|holder| holder.peers_of.is_none()).ok_or_else(missing)?;
            let (name, place, link) = (tier.name.clone(), Place::Peers(at), link_of(tier)?);
            Ok(simulated::Tier { name, place, link, capacity: None, ..of_its_own(holder)? })
        };
        let link = |link: &Link| simulated::Link {
            name: link.name.clone(),
            speed: link.speed.0 as f64,
            latency: link.latency.0.as_secs_f64(),
            place: place(link.shared),
        };
        let Machines { nodes, cores, processes, core_watts } = self.cluster;
        let tiers = self.tiers.iter().map(tier).collect::<Result<_, _>>()?;
        let cluster =
            Cluster { nodes, cores, core_watts, processes, tiers, links: self.links.iter().map(link).collect() };
        cluster.check()?;
        Ok(cluster)
    }

    /// Checks that the simulation is small enough to finish.
    pub fn check_count(&self, blocks: usize) -> Result<(), DescriptionError> {
        let of = &self.workload;
        let counts = [of.objects, of.steps, self.cluster.processes];
        let blocks = counts.into_iter().fold(blocks, usize::saturating_mul);
        if blocks > MAX_SIMULATED_BLOCKS { Err(DescriptionError::Long { blocks }) } else { Ok(()) }
    }
}

impl Workload {
    /// Returns the size of a block, and the number of blocks of an object.
    pub fn blocks(&self) -> Result<(u64, usize), DescriptionError> {
        let (Bytes(object), Bytes(block)) = (self.object, self.block);
        if object == 0 {
            return Err(DescriptionError::None { key: "object" });
        }
        if !(4096..=MAX_BLOCK_BYTES).contains(&block) {
            return Err(DescriptionError::Block(self.block));
        }
        if object > block && !object.is_multiple_of(block) {
            return Err(DescriptionError::Uneven { object: self.object, block: self.block });
        }
        Ok((object.min(block), object.div_ceil(block) as usize))
    }
}

impl Data {
    /// Returns the declared costs of encodings.
    pub fn costs(&self) -> Result<Vec<(Encoding, Expected)>, DescriptionError> {
        distinct("data.encoding", self.encodings.iter().map(|encoding| &*encoding.name))?;
        self.encodings.iter().map(Measured::cost).collect()
    }
}

impl Measured {
    fn cost(&self) -> Result<(Encoding, Expected), DescriptionError> {
        let wrong = |reason: String| DescriptionError::Encoding { name: self.name.clone(), reason };
        let encoding: Encoding = self.name.parse().map_err(|e| wrong(format!("{e}")))?;
        if !(self.ratio.is_finite() && self.ratio > 0.0) {
            return Err(wrong(format!("ratio is {}; give bytes before over bytes after, such as 2.5", self.ratio)));
        }
        let (compress, decompress) = (self.compress.0 as f64, self.decompress.0 as f64);
        Ok((encoding, Expected::from_speeds(compress, decompress, self.ratio)))
    }
}

fn distinct<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), DescriptionError> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if name.trim().is_empty() {
            return Err(DescriptionError::Unnamed(what));
        }
        if !seen.insert(name) {
            return Err(DescriptionError::Twice(name.to_owned(), what));
        }
    }
    Ok(())
}
