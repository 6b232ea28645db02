//! Moves pending replicas off targets that are away.

use terrace_catalog::TargetId;

use super::Mover;
use super::drain::Departing;
use super::edits::task_at;
use crate::Result;
use crate::report::{Moved, TierState};

impl Mover {
    /// Makes replicas of objects at or below `prefix` that are owed to targets that are away on others instead. Those that nothing else
    /// takes stay owed.
    pub fn redirect_owed(&self, prefix: &[u8]) -> Result<Moved> {
        let is_away =
            |target: &TargetId| self.tiers.device(*target).is_ok_and(|device| device.state() == TierState::Away);
        let away: Vec<TargetId> = self.tiers.devices.iter().map(|device| device.id).filter(is_away).collect();
        if away.is_empty() || self.catalog.owed_count(None)? == 0 {
            return Ok(Moved::default());
        }
        let departing = Departing::owed(&self.tiers, away);
        self.move_each(prefix, |key, object, extent, moves| {
            let owed = self.catalog.owed_to(&task_at(object.id, extent, 0))?;
            let (off, mut chosen): (Vec<TargetId>, Vec<TargetId>) =
                owed.into_iter().partition(|target| departing.has(*target));
            for target in off {
                self.move_owed_off(key, object.id, extent, &mut chosen, target, &departing, moves)?;
            }
            Ok(())
        })
    }
}
