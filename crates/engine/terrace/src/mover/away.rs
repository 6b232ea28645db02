//! Makes replicas elsewhere for those on nodes that have been away for long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use terrace_catalog::frames;
use terrace_system::fail;

use super::Mover;
use super::drain::Departing;
use super::moves::Moves;
use crate::Result;

/// A node that is away for longer than this, in seconds, may not come back soon.
const REBUILD_AFTER_SECONDS: u64 = 600;
/// The number of objects that one round of the background thread looks at.
const MAX_OBJECTS_PER_ROUND: usize = 256;

/// Nodes that are away, by name.
pub(super) type AwayNodes = BTreeMap<String, Away>;

/// A node that is away.
pub(super) struct Away {
    /// The time at which it was first missed, or at which all objects were last looked at.
    since: Instant,
    /// The last object that was looked at.
    after: Option<Vec<u8>>,
}

impl Mover {
    /// Makes replicas pending for some of those on nodes that have been away for ten minutes. Each replaces the one that is away. Returns
    /// the number of objects that were looked at.
    pub(super) fn rebuild_away(&self) -> Result<usize> {
        if !self.catalog.is_shared() {
            return Ok(0);
        }
        let limit = Duration::from_secs(fail::limit("TERRACE_REBUILD_AFTER_SECONDS", REBUILD_AFTER_SECONDS));
        let there: BTreeSet<String> = self.catalog.members()?.into_iter().map(|(_, member)| member.node).collect();
        let known: BTreeSet<&String> = self.tiers.devices.iter().filter_map(|device| device.node.as_ref()).collect();
        let mut away = self.state.away.lock();
        away.retain(|name, _| !there.contains(name));
        for name in known.into_iter().filter(|name| !there.contains(*name)) {
            away.entry(name.clone()).or_insert_with(|| Away { since: Instant::now(), after: None });
        }
        match away.iter_mut().find(|(_, away)| away.since.elapsed() > limit) {
            Some((name, away)) => self.rebuild_some(name, away),
            None => Ok(0),
        }
    }

    fn rebuild_some(&self, name: &str, away: &mut Away) -> Result<usize> {
        let holds_some =
            |target| Ok::<_, crate::Error>(self.catalog.segments(target)?.iter().any(|(_, live)| live.frames > 0));
        let mut own = self.tiers.devices.iter().filter(|device| device.node.as_deref() == Some(name));
        let is_empty = !own.try_fold(false, |holds, device| Ok::<_, crate::Error>(holds || holds_some(device.id)?))?;
        let page = match is_empty {
            true => Vec::new(),
            false => self.catalog.list(b"", away.after.as_deref(), MAX_OBJECTS_PER_ROUND)?,
        };
        let Some((last, _)) = page.last() else {
            *away = Away { since: Instant::now(), after: None };
            return Ok(0);
        };
        if away.after.is_none() {
            tracing::warn!(
                node = name,
                "the node has been away for long, and other nodes make the replicas that it holds"
            );
        }
        let mut departing = Departing::node(&self.tiers, name, false)?;
        let mut moves = Moves::default();
        for (key, _) in &page {
            let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { continue };
            for extent in frames(&extents) {
                self.depart(key, &object, extent, &mut departing, &mut moves)?;
            }
        }
        self.commit_planned(&mut moves)?;
        away.after = Some(last.clone());
        Ok(page.len())
    }
}
