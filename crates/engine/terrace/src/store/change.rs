//! Adds tiers to a store, removes them, and changes its rules.

use std::fs::File;
use std::path::Path;

use terrace_format::key;

use super::{Store, destroy};
use crate::config::{Config, Rule, TierConfig};
use crate::devices::targets;
use crate::home::{Cluster, boot, check_identity, lock_store, read_config, refuse_if_shared, write_file};
use crate::report::TierRemains;
use crate::{Error, Result};

/// The number of pending replicas that are read at a time.
const OWED_PER_READ: usize = 1024;

impl Store {
    /// Adds tiers, each before the existing tier named in `before`, or last. No other process may have the store open, unless several nodes
    /// share it: then all of them use the tiers from now on, and new tiers come last.
    ///
    /// # Errors
    /// [`Error::Config`] if the tiers do not fit the existing ones, or a target is the store's own directory; [`Error::Io`]
    /// if a target cannot be created, or belongs to a store. Then nothing is changed.
    pub fn add_tiers(dir: &Path, added: Vec<TierConfig>, before: Option<&str>) -> Result<()> {
        if Cluster::read(dir)?.is_some() {
            return Store::open(dir)?.add_shared_tiers(added, before);
        }
        change(dir, |config| {
            let at = match before {
                Some(name) => position(config, name)?,
                None => config.tiers.len(),
            };
            // Before the configuration names them, because a store with an unusable target does not open.
            config.tiers.splice(at..at, added.iter().cloned());
            config.make_paths_absolute()?;
            check_apart(dir, config)?;
            targets::probe(config.tiers[at..].iter().take(added.len()))
        })
    }

    /// Removes a tier that [`Store::drain`] has emptied, and the store's files on its targets. Files of other programs stay, and so does
    /// a target that is away; both are returned. No other process may have the store open.
    ///
    /// # Errors
    /// [`Error::Config`] if replicas are still on it or pending for it, or it is the last persistent tier.
    pub fn remove_tier(dir: &Path, name: &str) -> Result<TierRemains> {
        let store = Store::open(dir)?;
        let level = position(store.config(), name)?;
        let names_it = |rule: &&Rule| rule.tiers.iter().flatten().any(|tier| tier == name);
        if let Some(rule) = store.engine.planning.rules.now().rules.iter().find(names_it) {
            return Err(Error::Config(format!(
                "the rule for {:?} names tier {name:?}; take the name out of its `tiers` in {} first",
                rule.prefix,
                dir.join("terrace.toml").display()
            )));
        }
        let on = |target| store.engine.tiers.device(target).is_ok_and(|d| d.tier == level);
        let mut left = 0;
        store.engine.catalog.each_object(b"", |_, _, extents| {
            left += extents.iter().flat_map(|e| &e.replicas).filter(|r| on(r.target)).count();
            Ok::<_, Error>(true)
        })?;
        let mut after = None;
        loop {
            let owed = store.engine.catalog.owed(after.as_ref(), OWED_PER_READ)?;
            left += owed.iter().filter(|(task, _)| on(task.target)).count();
            let Some((last, _)) = owed.last() else { break };
            after = Some(*last);
        }
        if left > 0 {
            return Err(Error::Config(format!(
                "{left} replicas are on tier {name:?}, or owed to it; `terrace drain {name}` moves them"
            )));
        }
        drop(store);
        let mut removed = None;
        change(dir, |config| {
            removed = Some(config.tiers.remove(position(config, name)?));
            Ok(())
        })?;
        // After the configuration has forgotten the tier: a target without its marker would be away. Otherwise its marker would
        // keep the directories from being added again.
        removed.map_or(Ok(TierRemains::default()), |tier| destroy::remove_targets(dir, &tier))
    }

    /// Replaces the rules for keys at or below `prefix`. The new rules take the place of the old ones, or come before all
    /// others. They apply at once, also in processes that have the store open. Stored objects follow them in the background.
    ///
    /// # Errors
    /// [`Error::Config`] if the rules do not fit the rest of the configuration.
    pub fn set_rules(&self, prefix: &str, rules: Vec<Rule>) -> Result<()> {
        let edit = |config: &mut Config| {
            let below = |rule: &Rule| key::below(rule.prefix.as_bytes(), prefix.as_bytes());
            let at = config.rules.iter().position(below).unwrap_or(0);
            config.rules.retain(|rule| !below(rule));
            config.rules.splice(at..at, rules.iter().cloned());
            Ok(())
        };
        if self.is_shared() { self.change_shared_config(edit) } else { self.edit_config(edit) }
    }

    /// Changes what processes that have the store open notice, once the change has passed all checks.
    pub(super) fn edit_config(&self, edit: impl FnOnce(&mut Config) -> Result<()>) -> Result<()> {
        let dir = self.dir();
        let lock = File::options().create(true).truncate(false).write(true).open(dir.join("rules.lock"));
        let lock = lock.map_err(Error::io(format!("locking {}", dir.join("rules.lock").display())))?;
        // Held until the file is dropped, from reading the configuration to writing it: two changes at the same time would lose
        // one. Readers need no lock, because the file is replaced as a whole.
        lock.lock().map_err(Error::io(format!("locking {}", dir.join("rules.lock").display())))?;
        let mut config = read_config(dir)?;
        let before = config.to_toml();
        edit(&mut config)?;
        let text = config.to_toml();
        Config::parse(&text, "the changed configuration")?;
        if text == before { Ok(()) } else { write_file(&dir.join("terrace.toml"), text.as_bytes()) }
    }
}

/// Checks that no target is the store's directory, contains it, or has a name that the store uses in it.
pub(super) fn check_apart(dir: &Path, config: &Config) -> Result<()> {
    let dir = terrace_system::real_path(dir);
    for tier in config.tiers.iter().filter(|tier| tier.kind.capabilities().local_path) {
        for target in &tier.targets {
            let path = terrace_system::real_path(&target.path);
            let inside = path.strip_prefix(&dir).ok().and_then(|below| below.components().next());
            let own = inside.is_some_and(|first| destroy::is_own_name(&first.as_os_str().to_string_lossy()));
            if dir.starts_with(&path) || own {
                return Err(Error::Config(format!(
                    "tier {:?}: target {} is, holds or lies inside what the store keeps in its own directory {}; name another \
                     directory",
                    tier.name,
                    path.display(),
                    dir.display()
                )));
            }
        }
    }
    Ok(())
}

pub(super) fn position(config: &Config, name: &str) -> Result<usize> {
    let names = || config.tiers.iter().map(|tier| tier.name.as_str());
    let unknown =
        || Error::Config(format!("there is no tier {name:?}; there are {}", names().collect::<Vec<_>>().join(", ")));
    names().position(|tier| tier == name).ok_or_else(unknown)
}

/// Replaces the store's configuration, once the change has passed all checks.
fn change(dir: &Path, edit: impl FnOnce(&mut Config) -> Result<()>) -> Result<()> {
    refuse_if_shared(dir)?;
    check_identity(dir)?;
    let lock = lock_store(dir)?;
    boot::alone(dir, &lock)?;
    let mut config = read_config(dir)?;
    config.number_targets();
    edit(&mut config)?;
    config.number_targets();
    config.make_paths_absolute()?;
    let text = config.to_toml();
    Config::parse(&text, "the changed configuration")?;
    write_file(&dir.join("terrace.toml"), text.as_bytes())
}
