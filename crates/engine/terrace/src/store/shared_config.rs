//! Changes the configuration of a store that several nodes share. The log has it, and each node writes it into its store's directory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use terrace_catalog::{Catalog, Change};
use terrace_tier::{TargetOwner, TargetSettings};

use super::Store;
use crate::config::{Config, SharedConfig, TargetConfig, TierConfig};
use crate::devices::targets;
use crate::home::{self, Cluster};
use crate::{Error, Result};

/// The name of the configuration that was in a store's directory and is not used.
const UNUSED_FILE: &str = "terrace.toml.unused";
/// A change is made again this often, if another node changes the configuration at the same time.
const MAX_CHANGE_TRIES: usize = 8;
/// How long a change waits until the node of this machine has written it.
const MAX_WRITE_WAIT: Duration = Duration::from_secs(5);

impl Store {
    /// Adds a target to a tier of a shared store. Its node need not be there yet.
    ///
    /// # Errors
    /// [`Error::Config`] if the store belongs to one machine, there is no such tier, or another target is at this place.
    pub fn add_target(&self, tier: &str, target: &TargetConfig) -> Result<()> {
        if !self.is_shared() {
            return Err(Error::Config(
                "this store belongs to one machine; `terrace tiers add` adds tiers to it".into(),
            ));
        }
        self.change_shared_config(|config| {
            let level = super::change::position(config, tier)?;
            let place = config.tiers[level].place_name(target);
            let tiers = &config.tiers;
            if tiers.iter().any(|tier| tier.targets.iter().any(|known| tier.place_name(known) == place)) {
                return Err(Error::Config(format!("{} is a target of this store already", place.display())));
            }
            config.tiers[level].targets.push(target.clone());
            config.number_targets();
            Ok(())
        })
    }

    /// Adds tiers to a shared store, after all others: processes that have the store open know its tiers by their places.
    pub(super) fn add_shared_tiers(&self, added: Vec<TierConfig>, before: Option<&str>) -> Result<()> {
        if before.is_some() {
            return Err(Error::Config("a tier of a store that several nodes share comes after all others".into()));
        }
        let common: Vec<&TierConfig> = added.iter().filter(|tier| Cluster::is_common(tier)).collect();
        // The first time, no target may be another store's. Later, those that could not be made are made.
        let is_known = |config: &Config| added.iter().all(|tier| config.tiers.iter().any(|known| known.is_like(tier)));
        if !is_known(&self.shared_config()?.parse()?) {
            targets::probe(common.iter().copied())?;
        }
        self.change_shared_config(|config| {
            if !is_known(config) {
                config.tiers.extend(added.iter().cloned());
                config.number_targets();
            }
            Ok(())
        })?;
        let config = self.shared_config()?.parse()?;
        for tier in config.tiers.iter().filter(|tier| common.iter().any(|added| added.name == tier.name)) {
            tier.targets.iter().try_for_each(|target| self.make_common_target(tier, target))?;
        }
        // This process knows them, too.
        self.engine.tiers.heed_nodes(&self.engine.catalog)
    }

    /// Puts the store's marker on a target that all nodes reach. Each of them has noted that it must not do so by itself.
    fn make_common_target(&self, tier: &TierConfig, target: &TargetConfig) -> Result<()> {
        let place = tier.place_name(target);
        let context = || format!("making target {} (repeat this command once that works)", place.display());
        let catalog = &self.engine.catalog;
        let (store, number) = (catalog.log().store(), target.number.unwrap_or_default());
        let owner = TargetOwner { store, number, dir: self.dir().to_owned(), ids: catalog.clone() };
        // A target that may be empty after a reboot is made wherever it is missing.
        let settings = TargetSettings { persistent: false, ..tier.settings(target) };
        let opened = tier.kind.open(&settings, &owner).map_err(Error::io(context()))?;
        opened.trouble.map_or(Ok(()), |error| Err(Error::io(context())(error)))
    }

    fn shared_config(&self) -> Result<SharedConfig> {
        SharedConfig::read(&self.engine.catalog)?.ok_or_else(|| lacks_config(self.dir()))
    }

    /// Changes the configuration in the log, and waits until the node of this machine has written it.
    pub(super) fn change_shared_config(&self, edit: impl Fn(&mut Config) -> Result<()>) -> Result<()> {
        let catalog = &self.engine.catalog;
        for _ in 0..MAX_CHANGE_TRIES {
            let before = self.shared_config()?;
            let mut config = before.parse()?;
            edit(&mut config)?;
            if config.to_toml() == before.text() {
                return Ok(());
            }
            Cluster::check(&config)?;
            match before.replace(catalog, &config, Change::default()) {
                Err(Error::Conflict { .. }) => {}
                done => return done.and_then(|()| self.wait_for_config()),
            }
        }
        Err(home::refuse(self.dir(), "other nodes change its configuration all the time; repeat this"))
    }

    /// Waits until other processes of this machine can read the configuration that the log has. A node that is slow does it later.
    fn wait_for_config(&self) -> Result<()> {
        let until = Instant::now() + MAX_WRITE_WAIT;
        while Instant::now() < until {
            let text = fs::read_to_string(self.dir().join("terrace.toml")).unwrap_or_default();
            if SharedConfig::read(&self.engine.catalog)?.is_none_or(|config| config.text() == text) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.engine.planning.rules.renew();
        Ok(())
    }
}

/// The configuration in a store's directory, which its node keeps like the one in the log.
#[derive(Default)]
pub(super) struct WrittenConfig {
    /// The version and the text that were written last.
    last: Option<(u64, String)>,
    /// The user's file whose rules the log has taken, until it is written as the log has it.
    taken: Option<Vec<u8>>,
}

impl WrittenConfig {
    /// Writes the configuration that the log has into the directory. If a user has changed the rules in the file since the last time, puts
    /// them into the log instead. Another file that is not the log's is kept as `terrace.toml.unused`.
    ///
    /// # Errors
    /// If the log has no configuration, or the disk does not take it.
    pub fn keep(&mut self, dir: &Path, catalog: &Catalog) -> Result<()> {
        let shared = SharedConfig::read(catalog)?.ok_or_else(|| lacks_config(dir))?;
        let file = dir.join("terrace.toml");
        // Bytes, since a file that is no text must not be lost either.
        let found = fs::read(&file).ok();
        let is_new = self.last.as_ref().is_none_or(|(generation, _)| *generation != shared.generation);
        let is_other = |text: &str| found.as_ref().is_some_and(|found| found != text.as_bytes());
        let is_edited =
            is_other(shared.text()) && found != self.taken && self.last.as_ref().is_none_or(|(_, last)| is_other(last));
        if !is_new && found.is_some() && !is_edited {
            return Ok(());
        }
        if let Some(found) = found.filter(|_| is_edited) {
            let taken =
                if is_new { Err(Error::Config("the log has a newer one".into())) } else { take_rules(&found, &shared) };
            match taken {
                // The next round writes it as the log has it.
                Ok(config) => {
                    shared.replace(catalog, &config, Change::default())?;
                    self.taken = Some(found);
                    return Ok(());
                }
                Err(error) => {
                    fs::write(dir.join(UNUSED_FILE), found)
                        .map_err(Error::io(format!("writing into {}", dir.display())))?;
                    tracing::warn!(file = %file.display(), kept = UNUSED_FILE, %error, "the file is not the configuration that the nodes share, and was replaced; change rules in it, or run `terrace node add`");
                }
            }
        }
        home::write_file(&file, shared.text().as_bytes())?;
        self.taken = None;
        self.last = Some((shared.generation, shared.text().to_owned()));
        Ok(())
    }
}

/// Returns the shared configuration with the rules of a text.
fn take_rules(text: &[u8], shared: &SharedConfig) -> Result<Config> {
    let text =
        str::from_utf8(text).map_err(|e| Error::Config(format!("terrace.toml: it is no text in UTF-8 ({e})")))?;
    let (edited, mut config) = (Config::parse(text, "terrace.toml")?, shared.parse()?);
    let rules = edited.rules.clone();
    let others = Config { rules: config.rules.clone(), ..edited };
    if others.to_toml() != config.to_toml() {
        return Err(Error::Config("terrace.toml: more than rules was changed".into()));
    }
    config.rules = rules;
    Ok(config)
}

fn lacks_config(dir: &Path) -> Error {
    home::refuse(dir, "the shared log has no configuration; run `terrace init --cluster` again")
}
