//! Follows changed rules: a note has those by which objects may have been planned.

use std::fs;
use std::io;
use std::sync::Arc;

use terrace_catalog::{Extent, Object, TargetId, frames};
use terrace_format::key;
use terrace_plan::policy::Policy;
use terrace_system::replace_durably;

use super::Mover;
use super::unplanned::Following;
use crate::config::{Config, StoreConfig};
use crate::home::read_config;
use crate::place::element_of;
use crate::report::Replanning;
use crate::{Error, Result};

/// The number of objects that one round of the background thread checks.
const MAX_REPLANNED_PER_ROUND: usize = 64;

/// The note, in the store's directory: the last object that follows the current rules, those rules, and earlier ones. It is durable before an
/// object is planned by rules that it does not tell.
const NOTE_FILE: &str = "rules";
/// Held while the note is read and replaced.
pub(crate) const NOTE_LOCK: &str = "rules-note.lock";
/// Begins the text of each earlier rules in the note, behind the rules that objects follow now.
const EARLIER_RULES_LINE: &str = "\n# earlier rules\n";
/// Stands in the note for rules that nobody knows any more. It is no TOML.
const UNKNOWN_RULES: &str = "unknown";

/// The progress of replanning since the rules changed.
struct Progress {
    /// The note that tells it. The progress is kept only if no process has noted other rules since.
    note: String,
    /// The rules that objects are to follow.
    rules: Arc<Config>,
    /// All rules by which objects after `after` may have been planned last: several if the rules changed while objects followed others. None
    /// for rules that the note no longer tells.
    earlier: Vec<Option<Arc<Config>>>,
    after: Option<Vec<u8>>,
}

impl Mover {
    /// If the rules have changed since the objects were planned, replans some of the objects that they apply to. Returns the
    /// number of objects that were checked.
    pub fn follow_rules(&self) -> Result<usize> {
        // Before any object follows these rules: if they change again, it is known that some may.
        self.note_rules(&self.planning.rules.now())?;
        let Some(progress) = self.progress() else { return Ok(0) };
        let page = self.catalog.list(b"", progress.after.as_deref(), MAX_REPLANNED_PER_ROUND)?;
        let (mut later, mut is_any_planned) = (Vec::new(), false);
        for (key, object) in &page {
            if self.is_to_follow(&progress, key, object)? {
                is_any_planned = true;
                let following = self.follow_policy(key, object)?;
                if following != Following::Done {
                    later.push((key.as_slice(), following));
                }
            }
        }
        // Before the progress, which no longer leads to them. A power cut must not take the commits and leave the progress.
        self.list_unplanned(&later)?;
        if is_any_planned {
            self.journal.mark_synced()?;
        }
        // If they have changed meanwhile, the page is planned again.
        if Arc::ptr_eq(&progress.rules, &self.planning.rules.now()) {
            match page.last() {
                Some((last, _)) => self.keep(&Progress { after: Some(last.clone()), ..progress })?,
                None => {
                    self.replace_note(&progress.note, note_of(&[], [rules_of(&progress.rules)]))?;
                }
            }
        }
        Ok(page.len())
    }

    /// Returns whether an object may have been planned by a policy that is not its policy now.
    fn is_to_follow(&self, progress: &Progress, key: &[u8], object: &Object) -> Result<bool> {
        let kept = self.planning.kept.of_replicas(key, Some(object));
        let now = self.planning.policy(key, &kept).wanted;
        let tiers = |rules: &Config| rules.rule_for(key).and_then(|rule| rule.tiers.clone());
        for earlier in &progress.earlier {
            let differs = match earlier {
                // The earlier rules may name a tier that is gone, which counted then.
                Some(rules) => {
                    tiers(rules) != tiers(&progress.rules)
                        || self.planning.policy_under(rules, key, &kept).wanted != now
                }
                None => !self.fits(key, &now)?,
            };
            if differs {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether an object has as many replicas as a policy wants, on tiers that it allows. Its budget and encodings are not compared.
    pub(super) fn fits(&self, key: &[u8], wanted: &Policy) -> Result<bool> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(true) };
        if object.want != wanted.replicas {
            return Ok(false);
        }
        for extent in frames(&extents) {
            if !self.extent_fits(&object, extent, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn extent_fits(&self, object: &Object, extent: &Extent, wanted: &Policy) -> Result<bool> {
        let targets = self.targets_of(object.id, extent)?;
        let count = usize::from(self.wanted_by(wanted, object.id, extent)?);
        let lasts =
            |target: &TargetId| self.tiers.device(*target).is_ok_and(|device| self.tiers.tier(device).persistent);
        Ok((wanted.budget.is_some() || targets.len() == count)
            && targets.iter().all(|target| self.allows(wanted, *target))
            && (wanted.volatile || targets.iter().any(lasts) || self.tiers.domains(wanted.tiers, true) == 0))
    }

    /// Returns whether a policy allows a replica on a target.
    pub(super) fn allows(&self, wanted: &Policy, target: TargetId) -> bool {
        self.tiers.device(target).is_ok_and(|device| {
            wanted.tiers.has(device.tier as u8) && (self.tiers.tier(device).persistent || !wanted.persistent)
        })
    }

    /// Returns whether a target takes a replica that an object lacks by its policy.
    pub(super) fn has_room_to_follow(&self, key: &[u8], wanted: &Policy) -> Result<bool> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(true) };
        let placer = self.planning.placer(key, element_of(key), *wanted);
        for extent in frames(&extents) {
            if self.extent_fits(&object, extent, wanted)? {
                continue;
            }
            let targets = self.targets_of(object.id, extent)?;
            let stay: Vec<TargetId> = targets.into_iter().filter(|target| self.allows(wanted, *target)).collect();
            // Where enough stay, others are only to leave.
            if stay.len() >= usize::from(wanted.replicas)
                || placer.choose_target_of_move(wanted.tiers, extent, &stay, wanted.volatile).is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns how far objects were replanned, if the rules have changed.
    pub fn replanning(&self) -> Option<Replanning> {
        let after = self.progress()?.after;
        Some(Replanning { after: after.map(|last| key::show(&last)) })
    }

    /// Returns whether all objects follow the current rules, as far as this process knows.
    pub(super) fn follows_rules(&self) -> bool {
        let now = self.planning.rules.now();
        // A leaf. A changed `terrace.toml` is another configuration, even if it says the same.
        let is_known = self.state.followed.lock().as_ref().is_some_and(|followed| Arc::ptr_eq(followed, &now));
        is_known || self.progress().is_none()
    }

    fn progress(&self) -> Option<Progress> {
        let note = match self.read_note() {
            Ok(note) => note?,
            Err(error) => {
                tracing::warn!(%error, "the note of the rules that objects follow cannot be read, so changed rules apply to new objects only");
                return None;
            }
        };
        let (after, mut texts) = parts_of(&note);
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
        let after = (follows && !after.is_empty()).then(|| key::unhex(after)).flatten();
        if follows {
            texts.remove(0);
        }
        let parse = |text: &&str| {
            // Written by a version with other settings, or damaged.
            let warn = |error: &toml::de::Error| tracing::warn!(%error, "the note of the rules that objects follow is not understood, so objects are planned again if their number of replicas or their tiers are not as the rules want");
            toml::from_str(text).inspect_err(warn).ok().map(Arc::new)
        };
        let earlier = texts.iter().map(parse).collect();
        Some(Progress { note, rules: config, earlier, after })
    }

    /// Notes rules by which this process is about to plan objects, unless they are those that objects follow. If the rules change back
    /// before any object has followed these, it is known that some may.
    pub fn note_rules(&self, rules: &Arc<Config>) -> Result<()> {
        // A leaf but for the note's lock. Held while the note is replaced: other threads of this process must not plan before.
        let mut noted = self.state.noted.lock();
        if noted.as_ref().is_some_and(|noted| Arc::ptr_eq(noted, rules)) {
            return Ok(());
        }
        self.rules_begin()?;
        while let Some(note) = self.read_note()? {
            let (_, texts) = parts_of(&note);
            let now = rules_of(rules);
            if texts[0] == now {
                break;
            }
            let earlier: Vec<String> = texts.into_iter().filter(|text| *text != now).map(str::to_owned).collect();
            if self.replace_note(&note, note_of(&[], std::iter::once(now).chain(earlier)))? {
                break;
            }
        }
        *noted = Some(rules.clone());
        Ok(())
    }

    /// Saves the progress, unless the note has changed.
    fn keep(&self, progress: &Progress) -> Result<()> {
        let earlier =
            progress.earlier.iter().map(|rules| rules.as_deref().map_or_else(|| UNKNOWN_RULES.to_owned(), rules_of));
        let texts = std::iter::once(rules_of(&progress.rules)).chain(earlier);
        self.replace_note(&progress.note, note_of(progress.after.as_deref().unwrap_or_default(), texts)).map(drop)
    }

    /// Notes that all objects follow the rules, in a store without such a note.
    pub fn rules_begin(&self) -> Result<()> {
        let _lock = self.locks.wait_for(NOTE_LOCK)?;
        match self.read_note()? {
            Some(_) => Ok(()),
            None => self.write_note(note_of(&[], [rules_of(&self.planning.rules.now())])),
        }
    }

    /// Replaces the note, and returns true, if it is still `expected`.
    fn replace_note(&self, expected: &str, note: String) -> Result<bool> {
        let _lock = self.locks.wait_for(NOTE_LOCK)?;
        if self.read_note()?.as_deref() != Some(expected) {
            return Ok(false);
        }
        self.write_note(note).map(|()| true)
    }

    /// Returns the note. There is none before a process that may write has opened the store.
    fn read_note(&self) -> Result<Option<String>> {
        let path = self.journal.dir.join(NOTE_FILE);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Other bytes are damage, and no TOML.
            read => {
                let bytes = read.map_err(Error::io(format!("reading {}", path.display())))?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }

    fn write_note(&self, note: String) -> Result<()> {
        // Durably: objects that are planned by these rules may be durable soon.
        replace_durably(&self.journal.dir.join(NOTE_FILE), note).map_err(Error::io("writing the note of the rules"))
    }
}

/// Returns the text of a note.
fn note_of(after: &[u8], texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().collect();
    format!("{}\n{}", key::hex(after), texts.join(EARLIER_RULES_LINE))
}

/// Splits a note into the last object, in hex, and the rules: those that objects follow, and earlier ones.
fn parts_of(note: &str) -> (&str, Vec<&str>) {
    // One without its first line is damaged.
    let (after, texts) = note.split_once('\n').unwrap_or(("", UNKNOWN_RULES));
    (after, texts.split(EARLIER_RULES_LINE).collect())
}

/// Returns the part of a configuration that decides the policy of objects.
fn rules_of(config: &Config) -> String {
    let store = StoreConfig { targets: 0, ..config.store.clone() };
    Config { store, rules: config.rules.clone(), origins: Vec::new(), tiers: Vec::new() }.to_toml()
}
