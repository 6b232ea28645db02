//! Follows changed rules: a note has those that objects followed before.

use std::fs;
use std::io;
use std::sync::Arc;

use terrace_catalog::{Object, TargetId, frames};
use terrace_format::key;
use terrace_plan::policy::Policy;
use terrace_system::replace;

use super::Mover;
use super::unplanned::Following;
use crate::Result;
use crate::config::{Config, StoreConfig};
use crate::home::read_config;
use crate::report::Replanning;

/// The number of objects that one round of the background thread checks.
const MAX_REPLANNED_PER_ROUND: usize = 64;

/// Begins the text of each earlier rules in the note, behind the rules that objects follow now.
const EARLIER_RULES_LINE: &str = "\n# earlier rules\n";
/// Stands in the note for rules that nobody knows any more. It is no TOML.
const UNKNOWN_RULES: &str = "unknown";

/// The progress of replanning since the rules changed. It is kept in the store's directory.
struct Progress {
    /// The rules that objects are to follow.
    rules: Arc<Config>,
    /// All rules by which objects after `after` may have been planned last: several if the rules changed while objects followed others. None
    /// for rules that the note no longer tells.
    earlier: Vec<Option<Config>>,
    after: Option<Vec<u8>>,
}

impl Mover {
    /// If the rules have changed since the objects were planned, replans some of the objects that they apply to. Returns the
    /// number of objects that were checked.
    pub fn follow_rules(&self) -> Result<usize> {
        let Some(progress) = self.progress() else { return Ok(0) };
        if progress.after.is_none() {
            // Before any object follows these rules: if they change again, it is known that some may.
            self.keep(&progress);
        }
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
                Some((last, _)) => self.keep(&Progress { after: Some(last.clone()), ..progress }),
                None => self.note_followed(&progress.rules),
            }
        }
        Ok(page.len())
    }

    /// Returns whether an object may have been planned by a policy that is not its policy now.
    fn is_to_follow(&self, progress: &Progress, key: &[u8], object: &Object) -> Result<bool> {
        let kept = self.planning.kept.of_replicas(key, Some(object));
        let now = self.planning.policy(key, &kept).wanted;
        for earlier in &progress.earlier {
            let differs = match earlier {
                Some(rules) => self.planning.policy_under(rules, key, &kept).wanted != now,
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
            let targets = self.targets_of(object.id, extent)?;
            let count = usize::from(self.wanted(wanted.replicas, object.id, extent)?);
            let is_allowed = |target: &TargetId| {
                self.tiers.device(*target).is_ok_and(|device| {
                    wanted.tiers.has(device.tier as u8) && (self.tiers.tier(device).persistent || !wanted.persistent)
                })
            };
            if wanted.budget.is_none() && targets.len() != count || !targets.iter().all(is_allowed) {
                return Ok(false);
            }
        }
        Ok(true)
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
        let text = match fs::read(self.journal.dir.join("rules")) {
            // Other bytes are damage, and no TOML.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => {
                // The note appears when the first process that may write has opened the store.
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, "the note of the rules that objects follow cannot be read, so changed rules apply to new objects only");
                }
                return None;
            }
        };
        // One without its first line is damaged, too.
        let (after, texts) = text.split_once('\n').unwrap_or(("", UNKNOWN_RULES));
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
            // Written by a version with other settings, or damaged, such as by a power cut.
            let warn = |error: &toml::de::Error| tracing::warn!(%error, "the note of the rules that objects follow is not understood, so objects are planned again if their number of replicas or their tiers are not as the rules want");
            toml::from_str(text).inspect_err(warn).ok()
        };
        let after = (goes_on && !after.is_empty()).then(|| key::unhex(after)).flatten();
        let earlier = texts.iter().map(parse).collect();
        Some(Progress { rules: config, earlier, after })
    }

    /// Saves the progress. If that fails, the only harm is that objects are checked again.
    fn keep(&self, progress: &Progress) {
        let after = key::hex(progress.after.as_deref().unwrap_or_default());
        let earlier =
            progress.earlier.iter().map(|rules| rules.as_ref().map_or_else(|| UNKNOWN_RULES.to_owned(), rules_of));
        self.write_rules(&after, std::iter::once(rules_of(&progress.rules)).chain(earlier));
    }

    /// Notes that all objects follow the rules, in a store without such a note.
    pub fn rules_begin(&self) {
        if !self.journal.dir.join("rules").exists() {
            self.note_followed(&self.planning.rules.now());
        }
    }

    /// Notes that all objects follow these rules.
    fn note_followed(&self, rules: &Config) {
        self.write_rules("", [rules_of(rules)]);
    }

    /// Errors are ignored: without the note, or with an older one, objects are only checked again.
    fn write_rules(&self, after: &str, texts: impl IntoIterator<Item = String>) {
        let texts: Vec<String> = texts.into_iter().collect();
        let _ = replace(&self.journal.dir.join("rules"), format!("{after}\n{}", texts.join(EARLIER_RULES_LINE)));
    }
}

/// Returns the part of a configuration that decides the policy of objects.
fn rules_of(config: &Config) -> String {
    let store = StoreConfig { targets: 0, ..config.store.clone() };
    Config { store, rules: config.rules.clone(), origins: Vec::new(), tiers: Vec::new() }.to_toml()
}
