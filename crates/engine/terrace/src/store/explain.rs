//! Explains the plan for some bytes: `terrace explain`.

use std::str::FromStr;

use serde::Serialize;
use terrace_codec::{Element, Encoding, Scratch, encode};
use terrace_cost::{Costs, Expected};
use terrace_plan::explain::Explanation;
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{Snapshot, Target, Tier};
use terrace_predict::analyze::Analysis;
use terrace_system::clock::thread_seconds;

use super::Store;
use crate::config::{Bytes, Rate, Time};
use crate::place::{MIN_EXPECTED_READS, PlanRequest, PutOptions, UNKNOWN_ENCODING_COST};
use crate::report::ReplicaState;
use crate::{Error, Result};

/// A question about how the store would place some bytes.
pub struct Question<'a> {
    /// The key for which the rules apply: the bytes are stored under it, or would be.
    pub key: &'a [u8],
    /// A block of the bytes. Each block is planned by itself.
    pub block: &'a [u8],
    /// The options of the write.
    pub options: &'a PutOptions,
    /// The changes of tiers to assume.
    pub what_if: &'a [WhatIf],
}

/// The candidates for some bytes, the choice, and the reasons for it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// The format of the bytes, as far as it was recognized.
    pub format: String,
    /// The type of their elements, if it is known or was detected.
    pub elements: Option<String>,
    /// The family of distributions that the elements fit, if any.
    pub distribution: Option<String>,
    /// Bits of information in a byte, by frequency alone.
    pub entropy: f64,
    /// The tier and the place of each target that the explanation names by number, and the node that it is on, if that is
    /// known.
    pub targets: Vec<(String, String, Option<String>)>,
    /// The candidates, and the reasons for the choice.
    pub explanation: Explanation,
    /// The actual sizes of the replicas that are stored under the key.
    pub measured: Vec<Measured>,
}

/// The size of an object's replicas on a tier in one encoding.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The tier's name.
    pub tier: String,
    /// The encoding's name.
    pub encoding: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes that they take.
    pub stored: u64,
}

/// An assumption about a tier, written as `tier.nvme.capacity=2TiB`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    tier: String,
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Capacity(u64),
    Read(f64),
    Write(f64),
    Latency(f64),
    Persistent(bool),
    Watts(f64),
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<WhatIf, String> {
        let wrong = || {
            format!(
                "{text:?} supposes nothing; write tier.NAME.capacity=2TiB, or one of read=100MB/s, write=80MB/s, \
                 latency=5ms, persistent=true, watts=5 in the place of capacity"
            )
        };
        let (path, value) = text.split_once('=').ok_or_else(wrong)?;
        let (tier, key) = path.strip_prefix("tier.").and_then(|path| path.rsplit_once('.')).ok_or_else(wrong)?;
        let change = match key {
            "capacity" => Change::Capacity(value.parse::<Bytes>()?.0),
            "read" => Change::Read(value.parse::<Rate>()?.0 as f64),
            "write" => Change::Write(value.parse::<Rate>()?.0 as f64),
            "latency" => Change::Latency(value.parse::<Time>()?.0.as_secs_f64()),
            "persistent" => Change::Persistent(value.parse().map_err(|_| wrong())?),
            "watts" => {
                Change::Watts(value.parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(WhatIf { tier: tier.to_owned(), change })
    }
}

impl WhatIf {
    fn apply(&self, level: usize, tiers: &mut [Tier], targets: &mut [Target], used: &[u64]) {
        for (target, used) in targets.iter_mut().zip(used).filter(|(target, _)| usize::from(target.tier) == level) {
            match self.change {
                Change::Capacity(bytes) => target.free = bytes.saturating_sub(*used),
                Change::Read(rate) => target.read = rate,
                Change::Write(rate) => target.write = rate,
                Change::Latency(seconds) => target.latency = seconds,
                Change::Persistent(_) | Change::Watts(_) => {}
            }
        }
        match self.change {
            Change::Persistent(lasts) => tiers[level].persistent = lasts,
            Change::Watts(watts) => tiers[level].watts = watts,
            _ => {}
        }
    }
}

impl Store {
    /// Explains how the store would place some bytes. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Config`] if an assumption names a tier that does not exist.
    pub fn explain(&self, question: &Question<'_>) -> Result<Explained> {
        question.options.check()?;
        let engine = &self.engine;
        let (mut policy, resolutions) = engine.planning.explained_policy(question.key, question.options);
        policy.wanted.raw_first &= engine.planning.pinned(question.key).is_none();
        let costs = self.survey(question.key, question.block, question.options.element, &policy.wanted);
        let snapshot = self.supposed(question.what_if)?;
        let request = PlanRequest { wanted: policy.wanted, beside: &[], reads: MIN_EXPECTED_READS, hash: 0 };
        let explanation =
            engine.planning.planner.explain(&snapshot, question.block.len() as u64, &request, &costs, &resolutions);
        let hint = question.options.element.map(terrace_predict::analyze::Elements::of);
        let analysis = Analysis::of(question.block, hint)
            .map_err(|e| Error::Damaged { what: "the block that was analyzed".into(), reason: e.to_string() })?;
        let named = |value: String| value.to_lowercase();
        Ok(Explained {
            format: named(format!("{:?}", analysis.format)),
            elements: analysis.elements.map(|elements| named(format!("{:?}", elements.element))),
            distribution: analysis.distribution.map(|distribution| named(format!("{distribution:?}"))),
            entropy: analysis.entropy,
            targets: engine
                .tiers
                .devices
                .iter()
                .map(|device| {
                    let (tier, place) = (engine.tiers.tier(device).name.clone(), device.path.display().to_string());
                    (tier, place, device.node.clone())
                })
                .collect(),
            explanation,
            measured: self.measured(question.key, question.block.len() as u64)?,
        })
    }

    /// Returns the first block of an object, for [`explain`](Store::explain). This read does not count for the object's
    /// hotness.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Unreadable`] if no good replica is left.
    pub fn first_block(&self, key: &[u8]) -> Result<Vec<u8>> {
        let block = self.engine.config.block() as u64;
        let (object, extents) = self.engine.catalog.locate(key, 0, block)?.ok_or_else(|| Error::not_found(key))?;
        let mut bytes = vec![0; block.min(object.length) as usize];
        self.engine.reader.read_extents(key, &object, &extents, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the expected cost on a block of each encoding that may be used under a key.
    pub(super) fn survey(&self, key: &[u8], block: &[u8], element: Option<Element>, wanted: &Policy) -> Costs {
        let engine = &self.engine;
        match engine.planning.pinned(key) {
            Some(encoding) => Costs::only(encoding, &tried(encoding, block)),
            None => Costs::new(engine.planning.lessons.survey(block, element, &engine.tiers, wanted)),
        }
    }

    /// Returns the state of the tiers, with the assumed changes.
    pub(super) fn supposed(&self, what_if: &[WhatIf]) -> Result<Snapshot> {
        let tiers = &self.engine.tiers;
        let (mut levels, mut targets) = crate::place::describe_tiers(tiers);
        let used: Vec<u64> = tiers.devices.iter().map(|device| device.filled()).collect();
        for one in what_if {
            one.apply(tiers.level(&one.tier)?, &mut levels, &mut targets, &used);
        }
        let planned_for = crate::place::snapshot_of(tiers, levels, targets);
        planned_for
            .ok_or_else(|| Error::Config("the planner does not accept these tiers; check the assumed values".into()))
    }

    /// Returns the actual sizes of the extents that begin in the first `block` bytes of an object.
    fn measured(&self, key: &[u8], block: u64) -> Result<Vec<Measured>> {
        let location = match self.locate(key) {
            Err(Error::NotFound { .. } | Error::BadKey { .. }) => return Ok(Vec::new()),
            located => located?,
        };
        let mut all: Vec<Measured> = Vec::new();
        for extent in location.extents.iter().filter(|extent| extent.offset < block) {
            for replica in extent.replicas.iter().filter(|replica| replica.state == ReplicaState::Present) {
                let same = |m: &&mut Measured| m.tier == replica.tier && m.encoding == replica.encoding;
                match all.iter_mut().find(same) {
                    Some(m) => (m.bytes, m.stored) = (m.bytes + extent.length, m.stored + replica.stored),
                    None => all.push(Measured {
                        tier: replica.tier.clone(),
                        encoding: replica.encoding.clone(),
                        bytes: extent.length,
                        stored: replica.stored,
                    }),
                }
            }
        }
        Ok(all)
    }
}

/// Returns the cost of an encoding on a block. An encoding that fails counts as one that shrinks nothing.
fn tried(encoding: Encoding, block: &[u8]) -> Expected {
    let (mut out, mut scratch) = (Vec::new(), Scratch::default());
    let start = thread_seconds();
    let stored = encode(encoding, block, &mut out, &mut scratch).ok().flatten();
    let bytes = block.len() as f64;
    let encode = (thread_seconds() - start).max(1e-9) / bytes;
    Expected { encode, stored: stored.map_or(1.0, |stored| stored.max(1) as f64 / bytes), ..UNKNOWN_ENCODING_COST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_supposed_is_read_or_refused_with_what_to_write() {
        let capacity = WhatIf { tier: "nvme".into(), change: Change::Capacity(2 << 40) };
        assert_eq!("tier.nvme.capacity=2TiB".parse(), Ok(capacity));
        assert_eq!("tier.a.b.latency=5ms".parse::<WhatIf>().map(|w| w.tier), Ok("a.b".into()));
        for wrong in ["", "nvme.capacity=1", "tier.nvme=1", "tier.nvme.size=1", "tier.nvme.persistent=maybe"] {
            assert!(wrong.parse::<WhatIf>().expect_err(wrong).contains("tier.NAME.capacity=2TiB"), "{wrong}");
        }
        assert!("tier.nvme.read=5".parse::<WhatIf>().expect_err("no unit").contains("100MB/s"));
    }
}
