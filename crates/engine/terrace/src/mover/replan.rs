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
use super::edits::task_at;
use super::moves::Moves;
use crate::config::{Config, StoreConfig};
use crate::home::read_config;
use crate::place::element_of;
use crate::report::{Moved, Replanning, TierState};
use crate::{Error, Result};

/// Extents with at most this score are cold.
const MAX_COLD_SCORE: f64 = 0.5;
/// The approximate number of edits in one commit.
const EDITS_PER_COMMIT: usize = 16;
/// The number of objects that one round of the background thread checks.
const MAX_REPLANNED_PER_ROUND: usize = 64;

/// Begins the text of each earlier rules in the note, behind the rules that objects follow now.
const EARLIER_RULES_LINE: &str = "\n# earlier rules\n";

/// The progress of replanning since the rules changed. It is kept in the store's directory.
struct Progress {
    /// The rules that objects are to follow.
    rules: Arc<Config>,
    /// All rules by which objects after `after` may have been planned last: several if the rules changed while objects followed others.
    earlier: Vec<Config>,
    after: Option<Vec<u8>>,
}

impl Mover {
    /// Carries out [`Store::tune`](crate::Store::tune).
    pub fn tune(&self, prefix: &[u8], all: bool) -> Result<Moved> {
        self.move_each(prefix, |key, object, extent, moves| {
            if !all && self.planning.hotness.score(key, extent.offset, extent.end()) > MAX_COLD_SCORE {
                return Ok(());
            }
            let (dense, policy) = (Weights::ARCHIVAL, self.policy_of(key)?);
            let replicas = extent.replicas.len().clamp(1, 255) as u8;
            let first = if policy.raw_first { policy.first } else { dense };
            let wanted = Policy { replicas, first, rest: dense, budget: None, ..policy };
            self.replan(key, object.id, extent, &wanted, true, moves).map(drop)
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
        // Objects that have not followed changed rules yet have replicas that no rule explains.
        let differs = self.planning.policy(from, &kept).wanted != self.planning.policy(to, &kept).wanted;
        if differs || !self.follows_rules() {
            self.state.unplanned.lock().push(to.to_vec()); // a leaf: see `State`
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
        moves: &mut Moves,
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
            moves.moved.kept += 1;
            return Ok(true);
        }
        let leaves = |target: TargetId| places.iter().all(|placed| placed.target != target);
        let mut unread = Unread::default();
        let extent = &*self.mend_beside(key, object, extent, leaves, &mut unread, &mut moves.good)?;
        let mut leaving = extent.replicas.iter().filter(|replica| leaves(replica.target));
        for placed in &places {
            let task = task_at(object, extent, placed.target);
            self.encode_as(task, placed.encoding);
            match extent.replicas.iter().find(|replica| replica.target == placed.target) {
                Some(replica) if replica.encoding == placed.encoding => {}
                Some(_) => {
                    moves.owe(key, task, extent, None);
                }
                None => {
                    let instead = leaving.next().map(|replica| replica.target);
                    moves.owe(key, task, extent, instead);
                }
            }
        }
        let enough = places.len() >= usize::from(wanted.replicas);
        for replica in leaving.filter(|_| enough) {
            let stays = |other: &&Replica| !leaves(other.target) && !unread.has(other);
            if extent.replicas.iter().filter(stays).any(|other| wanted.volatile || self.outlives(other)) {
                moves.drop(key, object, extent, replica);
            }
        }
        Ok(true)
    }

    /// If the rules have changed since the objects were planned, replans some of the objects that they apply to. Returns the
    /// number of objects that were checked.
    pub fn follow_rules(&self) -> Result<usize> {
        let Some(progress) = self.progress() else { return Ok(0) };
        if progress.after.is_none() {
            // Before any object follows these rules: if they change again, it is known that some may.
            self.keep(&progress);
        }
        let page = self.catalog.list(b"", progress.after.as_deref(), MAX_REPLANNED_PER_ROUND)?;
        for (key, object) in &page {
            let kept = self.planning.kept.of_replicas(key, Some(object));
            let now = self.planning.policy(key, &kept).wanted;
            let mut earlier = progress.earlier.iter().map(|rules| self.planning.policy_under(rules, key, &kept).wanted);
            if earlier.any(|then| then != now) && !self.follow_policy(key, object)? {
                self.state.unplanned.lock().push(key.clone()); // a leaf: see `State`
            }
        }
        // If they have changed meanwhile, the page is planned again.
        if Arc::ptr_eq(&progress.rules, &self.planning.rules.now()) {
            match page.last() {
                Some((last, _)) => self.keep(&Progress { after: Some(last.clone()), ..progress }),
                None => self.note_followed(&progress.rules),
            }
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
        for key in unplanned {
            let followed = self.catalog.object(&key).map_err(Error::from).and_then(|object| match object {
                Some(object) => self.follow_policy(&key, &object),
                None => Ok(true),
            });
            match followed {
                Ok(true) => done += 1,
                Ok(false) => later.push(key),
                Err(error) => {
                    later.push(key);
                    failed = Err(error);
                }
            }
        }
        // Not held during the loop above, so that renames need not wait for it.
        self.state.unplanned.lock().append(&mut later);
        failed.map(|()| done)
    }

    /// Replans an object by its policy. Returns false if a part of it must be planned later.
    fn follow_policy(&self, key: &[u8], object: &Object) -> Result<bool> {
        let wanted = self.planning.policy(key, &self.planning.kept.of_replicas(key, Some(object))).wanted;
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(true) };
        let mut all = true;
        let mut moves = Moves::default();
        if object.want != wanted.replicas {
            moves.edits.push(Edit::Want { key: key.to_vec(), object: object.id, want: wanted.replicas });
        }
        for extent in frames(&extents) {
            all &= self.replan(key, object.id, extent, &wanted, false, &mut moves)?;
            if moves.edits.len() >= EDITS_PER_COMMIT {
                self.commit_planned(&mut moves)?;
            }
        }
        self.commit_planned(&mut moves)?;
        Ok(all)
    }

    /// Returns how far objects were replanned, if the rules have changed.
    pub fn replanning(&self) -> Option<Replanning> {
        let after = self.progress()?.after;
        Some(Replanning { after: after.map(|last| key::show(&last)) })
    }

    /// Returns whether all objects follow the current rules, as far as this process knows.
    fn follows_rules(&self) -> bool {
        let now = self.planning.rules.now();
        // A leaf. A changed `terrace.toml` is another configuration, even if it says the same.
        let is_known = self.state.followed.lock().as_ref().is_some_and(|followed| Arc::ptr_eq(followed, &now));
        is_known || self.progress().is_none()
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
        let (after, texts) = text.split_once('\n').unwrap_or(("", "damaged"));
        let mut texts: Vec<&str> = texts.split(EARLIER_RULES_LINE).collect();
        let config = self.planning.rules.now();
        let now = rules_of(&config);
        let follows = texts[0] == now;
        if follows && texts.len() == 1 {
            *self.state.followed.lock() = Some(config); // a leaf
            return None;
        }
        // A process that cannot follow the new rules while it has the store open leaves the work to those that can.
        let current = read_config(&self.journal.dir).is_ok_and(|config| rules_of(&config) == now);
        if !current {
            return None;
        }
        // If the rules have changed again, some objects follow `texts[0]`, and others still earlier ones.
        let goes_on = follows || texts.len() == 1;
        if follows {
            texts.remove(0);
        }
        let parse = |text: &&str| {
            toml::from_str(text).unwrap_or_else(|error| {
                // Written by a version with other settings, or damaged.
                tracing::warn!(%error, "the note of the rules that objects follow is not understood, so objects are planned again as if there had been no rules");
                Config { store: config.store.clone(), rules: Vec::new(), origins: Vec::new(), tiers: Vec::new() }
            })
        };
        let after = (goes_on && !after.is_empty()).then(|| key::unhex(after)).flatten();
        let earlier = texts.iter().map(parse).collect();
        Some(Progress { rules: config, earlier, after })
    }

    /// Saves the progress. If that fails, the only harm is that objects are checked again.
    fn keep(&self, progress: &Progress) {
        let after = key::hex(progress.after.as_deref().unwrap_or_default());
        self.write_rules(&after, std::iter::once(&*progress.rules).chain(&progress.earlier));
    }

    /// Notes that all objects follow the rules, in a store without such a note.
    pub fn rules_begin(&self) {
        if !self.journal.dir.join("rules").exists() {
            self.note_followed(&self.planning.rules.now());
        }
    }

    /// Notes that all objects follow these rules.
    fn note_followed(&self, rules: &Config) {
        self.write_rules("", [rules]);
    }

    /// Errors are ignored: without the note, or with an older one, objects are only checked again.
    fn write_rules<'c>(&self, after: &str, configs: impl IntoIterator<Item = &'c Config>) {
        let texts: Vec<String> = configs.into_iter().map(rules_of).collect();
        let _ = replace(&self.journal.dir.join("rules"), format!("{after}\n{}", texts.join(EARLIER_RULES_LINE)));
    }
}

/// Returns the part of a configuration that decides the policy of objects.
fn rules_of(config: &Config) -> String {
    let store = StoreConfig { targets: 0, ..config.store.clone() };
    Config { store, rules: config.rules.clone(), origins: Vec::new(), tiers: Vec::new() }.to_toml()
}
