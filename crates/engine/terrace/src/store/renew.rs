//! Replaces the lost content of a tier by empty targets.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use terrace_catalog::{Extent, Replica, frames};
use terrace_format::key;
use terrace_tier::made_note;

use super::Store;
use super::change::position;
use crate::home::{boot, check_identity, lock_store, read_config, refuse, refuse_if_shared};
use crate::origins::is_at_origin;
use crate::{Error, Result};

impl Store {
    /// Opens the store with new, empty directories in place of a tier's directories that are lost for good. Their replicas
    /// become pending. No other process may have the store open. None if the log is damaged: the directories are made once it is mended or
    /// salvaged.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such tier; [`Error::Store`] if lost directories had the only good copies of objects, unless `force`;
    /// [`Error::Io`] if a target cannot be created, for example because its place has another marker. Then the tier is unchanged.
    pub fn renew_tier(dir: &Path, name: &str, force: bool) -> Result<Option<Store>> {
        refuse_if_shared(dir)?;
        check_identity(dir)?;
        if !force {
            // Its replicas are given up, so whole bytes must be elsewhere.
            check_copies_elsewhere(dir, name)?;
        }
        let lock = lock_store(dir)?;
        boot::alone(dir, &lock)?;
        let config = read_config(dir)?;
        let level = position(&config, name)?;
        let numbers = config.tiers[level].targets.iter().filter_map(|target| target.number);
        let notes: Vec<PathBuf> = numbers.map(|number| made_note(dir, number)).filter(|note| note.exists()).collect();
        for note in &notes {
            fs::remove_file(note).map_err(Error::io(format!("removing {}", note.display())))?;
        }
        drop(lock);
        let renewed = Store::open(dir).and_then(|store| {
            for device in store.engine.tiers.devices.iter().filter(|device| device.tier == level) {
                device.target.ready().map_err(Error::io(format!("renewing target {}", device.path.display())))?;
            }
            Ok(store)
        });
        // The notes stay removed: a salvage needs all targets.
        if let Err(Error::LogDamaged(reason)) = renewed {
            tracing::warn!(
                reason,
                "the commit log is damaged; the tier gets empty targets once it is mended or salvaged"
            );
            return Ok(None);
        }
        if renewed.is_err() {
            // Without its note, a target that cannot be created would prevent the whole store from being opened.
            for note in &notes {
                File::create(note)
                    .and_then(|file| file.sync_all())
                    .map_err(Error::io(format!("writing {}", note.display())))?;
            }
        }
        renewed.map(Some)
    }
}

/// Checks that no target of a tier that is away has the only good copy of bytes of an object. Reads the other copies: a bad one saves nothing.
fn check_copies_elsewhere(dir: &Path, name: &str) -> Result<()> {
    let store = match Store::open(dir) {
        // What the tier has is not known before the log is mended or salvaged. That names what is lost.
        Err(Error::LogDamaged(_)) => return Ok(()),
        opened => opened?,
    };
    let level = position(store.config(), name)?;
    let mut away = Vec::new();
    for device in store.engine.tiers.devices.iter().filter(|device| device.tier == level) {
        away.extend(device.target.ready().err().map(|error| (device.id, error)));
    }
    if away.is_empty() {
        return Ok(());
    }
    let is_gone = |replica: &Replica| away.iter().any(|(target, _)| *target == replica.target);
    let (mut objects, mut first) = (0, None);
    store.engine.catalog.each_object(b"", |key, object, extents| {
        let is_lost = |extent: &Extent| {
            let mut rest = extent.clone();
            rest.replicas.retain(|replica| !is_gone(replica));
            rest.replicas.len() < extent.replicas.len() && store.engine.reader.read_frame(object.id, &rest).is_none()
        };
        if !is_at_origin(object) && frames(extents).any(is_lost) {
            objects += 1;
            first.get_or_insert_with(|| key::show(key));
        }
        Ok::<_, Error>(true)
    })?;
    let (Some(first), Some((_, why))) = (first, away.first()) else { return Ok(()) };
    let (of, more) = match objects {
        1 => ("an object".to_owned(), ""),
        _ => (format!("{objects} objects"), ", ..."),
    };
    let reason = format!(
        "tier {name} is away ({why}), and has the only good copy of bytes of {of}: {first}{more}. Mount it, or bring its service back. If it is \
         gone for good, `terrace tiers renew {name} --force` gives these bytes up. Nothing was changed"
    );
    Err(refuse(dir, &reason))
}
