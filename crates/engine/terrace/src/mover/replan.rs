//! Plans stored objects again: cold ones for a denser encoding, and those whose rule has changed by the new rule.

use std::fs;
use std::io;
use std::sync::Arc;

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId, frames};
use terrace_cost::Weights;
use terrace_format::key;
use terrace_plan::policy::Policy;
use terrace_system::replace;

use super::Mover;
use super::beside::Unread;
use super::drops::Staying;
use super::edits::{drop_replica, owe, task_at};
use crate::config::{Config, StoreConfig};
use crate::home::read_config;
use crate::place::element_of;
use crate::report::{Lacking, Moved, Replanning, TierState};
use crate::{Error, Result};

/// Extents with at most this score are cold.
const MAX_COLD_SCORE: f64 = 0.5;
/// The approximate number of edits in one commit.
const EDITS_PER_COMMIT: usize = 16;
/// The number of objects that one round of the background thread checks.
const MAX_REPLANNED_PER_ROUND: usize = 64;

/// The progress of replanning since the rules changed. It is kept in the store's directory.
struct Progress {
    /// The rules by which the objects after `after` were last planned.
    before: Config,
    after: Option<Vec<u8>>,
}

impl Mover {
    /// Carries out [`Store::tune`](crate::Store::tune).
    pub fn tune(&self, prefix: &[u8], all: bool) -> Result<Moved> {
        self.move_each(prefix, |key, object, extent, edits, moved| {
            if !all && self.planning.hotness.score(key, extent.offset, extent.end()) > MAX_COLD_SCORE {
                return Ok(());
            }
            let (dense, policy) = (Weights::ARCHIVAL, self.policy_of(key)?);
            let replicas = extent.replicas.len().clamp(1, 255) as u8;
            let first = if policy.raw_first { policy.first } else { dense };
            let wanted = Policy { replicas, first, rest: dense, budget: None, ..policy };
            self.replan(key, object.id, extent, &wanted, true, edits, moved).map(drop)
        })
    }

    /// Notes a rename, so that the object is replanned if other rules apply to the new key.
    pub fn note_rename(self: &Arc<Self>, from: &[u8], to: &[u8]) {
        if self.planning.rules.now().rules.is_empty() {
            return;
        }
        let object = match self.catalog.object(to) {
            Ok(object) => object,
            // The rename is done. The object's replicas stay as they are.
            Err(error) => {
                tracing::warn!(key = %key::show(to), %error, "a renamed object was not read, so its replicas follow the rules for its old key until the rules change");
                return;
            }
        };
        let kept = self.planning.kept.of_replicas(to, object.as_ref());
        let then = self.planning.policy(from, &kept).wanted;
        if then != self.planning.policy(to, &kept).wanted {
            self.state.unplanned.lock().push((to.to_vec(), then)); // a leaf: see `State`
            self.start(true);
        }
    }

    /// Adds the edits that bring an extent's replicas in line with a new plan. With `stay`, no replica changes its target.
    /// Returns false if replicas are still pending: then the extent must be planned later.
    #[allow(clippy::too_many_arguments)]
    fn replan(
        &self,
        key: &[u8],
        object: u64,
        extent: &Extent,
        wanted: &Policy,
        stay: bool,
        edits: &mut Vec<Edit>,
        moved: &mut Moved,
    ) -> Result<bool> {
        let works = |target| self.tiers.device(target).is_ok_and(|device| device.state() == TierState::Ok);
        if !self.catalog.owed_to(&task_at(object, extent, 0))?.is_empty() {
            return Ok(false);
        }
        if !extent.replicas.iter().all(|replica| works(replica.target)) {
            return Ok(true);
        }
        let Some(raw) = self.reader.read_frame(object, extent) else { return Ok(true) };
        let wanted = Policy { replicas: self.wanted(wanted.replicas, object, extent)?, ..*wanted };
        let placer = self.planning.placer(key, element_of(key), wanted);
        let places = placer.replan(extent, &raw, stay);
        if places.is_empty() {
            moved.kept += 1;
            return Ok(true);
        }
        let leaves = |target: TargetId| places.iter().all(|placed| placed.target != target);
        let mut unread = Unread::default();
        let extent = &*self.mend_beside(key, object, extent, leaves, &mut unread, &mut moved.good)?;
        let mut leaving = extent.replicas.iter().filter(|replica| leaves(replica.target));
        for placed in &places {
            let task = task_at(object, extent, placed.target);
            self.encode_as(task, placed.encoding);
            match extent.replicas.iter().find(|replica| replica.target == placed.target) {
                Some(replica) if replica.encoding == placed.encoding => {}
                Some(_) => {
                    edits.push(owe(key, task, extent, None));
                    moved.made += 1;
                }
                None => {
                    let instead = leaving.next().map(|replica| replica.target);
                    edits.push(owe(key, task, extent, instead));
                    moved.made += 1;
                    moved.dropped += u64::from(instead.is_some());
                }
            }
        }
        let enough = places.len() >= usize::from(wanted.replicas);
        for replica in leaving.filter(|_| enough) {
            let stays = |other: &&Replica| !leaves(other.target) && !unread.has(other);
            if extent.replicas.iter().filter(stays).any(|other| wanted.volatile || self.outlives(other)) {
                edits.push(drop_replica(key, object, extent, replica));
                moved.dropped += 1;
            }
        }
        Ok(true)
    }

    /// If the rules have changed since the objects were planned, replans some of the objects that they apply to. Returns the
    /// number of objects that were checked.
    pub fn follow_rules(&self) -> Result<usize> {
        let Some(progress) = self.progress() else { return Ok(0) };
        let page = self.catalog.list(b"", progress.after.as_deref(), MAX_REPLANNED_PER_ROUND)?;
        for (key, object) in &page {
            let kept = self.planning.kept.of_replicas(key, Some(object));
            let then = self.planning.policy_under(&progress.before, key, &kept).wanted;
            if !self.follow_policy(key, object, &then)? {
                self.state.unplanned.lock().push((key.clone(), then)); // a leaf: see `State`
            }
        }
        match page.last() {
            Some((last, _)) => self.keep(&Progress { after: Some(last.clone()), ..progress }),
            None => self.rules_followed(),
        }
        Ok(page.len())
    }

    /// Replans the objects whose policy has changed, and returns their number. Objects with pending replicas are planned
    /// later.
    pub fn follow_policies(&self) -> Result<usize> {
        // A sync waits here for the round that the background thread has begun.
        let _alone = self.state.following.lock();
        let unplanned = std::mem::take(&mut *self.state.unplanned.lock());
        let (mut done, mut later, mut failed) = (0, Vec::new(), Ok(()));
        for (key, then) in unplanned {
            let followed = self.catalog.object(&key).map_err(Error::from).and_then(|object| match object {
                Some(object) => self.follow_policy(&key, &object, &then),
                None => Ok(true),
            });
            match followed {
                Ok(true) => done += 1,
                Ok(false) => later.push((key, then)),
                Err(error) => {
                    later.push((key, then));
                    failed = Err(error);
                }
            }
        }
        // Not held during the loop above, so that renames need not wait for it.
        self.state.unplanned.lock().append(&mut later);
        failed.map(|()| done)
    }

    /// Replans an object if its policy differs from `then`. Returns false if a part of it must be planned later.
    fn follow_policy(&self, key: &[u8], object: &Object, then: &Policy) -> Result<bool> {
        let now = self.planning.policy(key, &self.planning.kept.of_replicas(key, Some(object))).wanted;
        if *then == now {
            return Ok(true);
        }
        // A number of replicas that was given with the object itself stays.
        let replicas = if object.want == then.replicas { now.replicas } else { object.want };
        let wanted = Policy { replicas, ..now };
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(true) };
        let mut all = true;
        let (mut edits, mut moved) = (Vec::new(), Moved::default());
        if object.want != replicas {
            edits.push(Edit::Want { key: key.to_vec(), object: object.id, want: replicas });
        }
        for extent in frames(&extents) {
            all &= self.replan(key, object.id, extent, &wanted, false, &mut edits, &mut moved)?;
            if edits.len() >= EDITS_PER_COMMIT {
                self.commit_moves(std::mem::take(&mut edits), Lacking::default(), Staying::Read(&moved.good))?;
            }
        }
        self.commit_moves(edits, Lacking::default(), Staying::Read(&moved.good))?;
        Ok(all)
    }

    /// Returns how far objects were replanned, if the rules have changed.
    pub fn replanning(&self) -> Option<Replanning> {
        let after = self.progress()?.after;
        Some(Replanning { after: after.map(|last| key::show(&last)) })
    }

    fn progress(&self) -> Option<Progress> {
        let text = match fs::read_to_string(self.journal.dir.join("rules")) {
            Ok(text) => text,
            Err(error) => {
                // The note appears when the first process that may write has opened the store.
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, "the note of the rules that objects follow cannot be read, so changed rules apply to new objects only");
                }
                return None;
            }
        };
        // One without its first line is damaged, too.
        let (after, before) = text.split_once('\n').unwrap_or(("", "damaged"));
        let config = self.planning.rules.now();
        let now = rules(&config);
        if before == now {
            return None;
        }
        // A process that cannot follow the new rules while it has the store open leaves the work to those that can.
        let current = read_config(&self.journal.dir).is_ok_and(|config| rules(&config) == now);
        if !current {
            return None;
        }
        let before = toml::from_str(before).unwrap_or_else(|error| {
            // Written by a version with other settings, or damaged. A number of replicas that only an earlier rule explains stays.
            tracing::warn!(%error, "the note of the rules that objects follow is not understood, so objects are planned again as if there had been no rules");
            Config { store: config.store.clone(), rules: Vec::new(), origins: Vec::new(), tiers: Vec::new() }
        });
        let after = (!after.is_empty()).then(|| key::unhex(after)).flatten();
        Some(Progress { before, after })
    }

    /// Saves the progress. If that fails, the only harm is that objects are checked again.
    fn keep(&self, progress: &Progress) {
        self.write_rules(&key::hex(progress.after.as_deref().unwrap_or_default()), &progress.before);
    }

    /// Notes that all objects follow the rules, in a store without such a note.
    pub fn rules_begin(&self) {
        if !self.journal.dir.join("rules").exists() {
            self.rules_followed();
        }
    }

    /// Notes that all objects follow the current rules.
    fn rules_followed(&self) {
        self.write_rules("", &self.planning.rules.now());
    }

    /// Errors are ignored: without the note, or with an older one, objects are only checked again.
    fn write_rules(&self, after: &str, config: &Config) {
        let _ = replace(&self.journal.dir.join("rules"), format!("{after}\n{}", rules(config)));
    }
}

/// Returns the part of a configuration that decides the policy of objects.
fn rules(config: &Config) -> String {
    let store = StoreConfig { targets: 0, ..config.store.clone() };
    Config { store, rules: config.rules.clone(), origins: Vec::new(), tiers: Vec::new() }.to_toml()
}
