//! Copies to a tier what is only on the nodes' own targets, before these are given up.

use std::collections::BTreeSet;
use std::time::Instant;

use terrace_catalog::{Extent, Object, Replica, Task};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::edits::task_at;
use super::moves::Moves;
use crate::Result;
use crate::report::Moved;

/// The part of the store that a node saves.
pub(crate) struct Saving<'a> {
    /// The tier to which extents are copied.
    level: usize,
    /// The node that copies, or none for one that does what others have left.
    node: Option<&'a str>,
    /// The nodes that are there.
    there: BTreeSet<String>,
    /// Nothing is begun later.
    until: Option<Instant>,
}

impl Mover {
    /// Carries out [`Store::save_to`](crate::Store::save_to).
    pub fn save(&self, tier: &str, node: Option<&str>, until: Option<Instant>) -> Result<Moved> {
        let there = self.catalog.members()?.into_iter().map(|(_, member)| member.node).collect();
        let saving = Saving { level: self.tiers.level(tier)?, node, there, until };
        let (mut all, mut late) = (Moved::default(), None);
        for prefix in self.most_read()?.into_iter().chain([Vec::new()]) {
            let moves = self.move_part(&prefix, &mut late, |key, object, extent, moves| {
                self.save_extent(&saving, key, object, extent, moves)
            })?;
            all.add(&moves.moved);
        }
        late.map_or(Ok(all), Err)
    }

    /// Returns the keys of objects that are read, those with the hottest ranges first: they may be wanted most if the time is short.
    fn most_read(&self) -> Result<Vec<Vec<u8>>> {
        let hotness = &self.planning.hotness;
        hotness.fold();
        let mut found = Vec::new();
        for key in hotness.objects() {
            let Some(object) = self.catalog.object(&key)? else { continue };
            let hottest = hotness.spans(&key, object.length).first().map_or(0.0, |span| span.score);
            found.push((hottest, key));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(found.into_iter().map(|(_, key)| key).collect())
    }

    fn save_extent(
        &self,
        saving: &Saving<'_>,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        moves: &mut Moves,
    ) -> Result<()> {
        let is_on = |target| self.tiers.device(target).is_ok_and(|device| device.tier == saving.level);
        let is_late = saving.until.is_some_and(|until| Instant::now() > until);
        if is_late
            || extent.replicas.iter().any(|replica| self.outlasts_nodes(replica))
            || !self.is_mine(saving, extent)
        {
            return Ok(());
        }
        let task = task_at(object.id, extent, 0);
        let owed = self.catalog.owed_to(&task)?;
        let placer = self.placer_for(object.id, key)?;
        let place = || {
            let beside: Vec<_> =
                extent.replicas.iter().map(|replica| replica.target).chain(owed.iter().copied()).collect();
            placer.choose_target(TierSet::of([saving.level]), extent, &beside, true)
        };
        // One that is pending there is made now.
        let Some(target) = owed.iter().copied().find(|target| is_on(*target)).or_else(place) else {
            moves.moved.kept += 1;
            return Ok(());
        };
        // A budget may pay for no further replica, and then for one in another place.
        let dropped = extent.replicas.first().filter(|_| placer.has_budget()).map(|replica| replica.target);
        moves.owe(key, Task { target, ..task }, extent, dropped);
        Ok(())
    }

    /// Returns whether a replica is on a persistent target that all nodes reach.
    fn outlasts_nodes(&self, replica: &Replica) -> bool {
        self.outlives(replica) && self.tiers.device(replica.target).is_ok_and(|device| device.node.is_none())
    }

    /// Returns whether this node copies an extent: it has the first of the replicas that can be read. All nodes decide alike. Without a
    /// node, all extents that can be read are copied: a copy that cannot be made would be waited for.
    fn is_mine(&self, saving: &Saving<'_>, extent: &Extent) -> bool {
        let nodes = extent.replicas.iter().filter_map(|replica| {
            let device = self.tiers.device(replica.target).ok()?;
            device.node.as_deref().filter(|node| saving.there.contains(*node)).map(|node| (device.id, node))
        });
        nodes.min().is_some_and(|(_, first)| saving.node.is_none_or(|node| node == first))
    }
}
