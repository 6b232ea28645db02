//! Drops versions that are too many, and the remains of dumps that were never completed.
//!
//! A dump drops the versions that are too many once it is durable itself. If it is killed before it has done so, or if a job reads the versions
//! meanwhile, there is one more at the next dump. A store without room for yet another one would never take a dump again. So a dump that finds a
//! store full drops them first, and is tried once more.

use std::num::NonZeroU32;

use terrace::fail;

use crate::gc;
use crate::lock::Locks;
use crate::manifest;
use crate::names::{self, Part};
use crate::options::{Dumped, Options};
use crate::restore::seems_whole;
use crate::session::Session;
use crate::transport::agree;
use crate::{Error, Result};

/// The number of dropped versions, and the bytes that this rank has freed.
type DroppedVersions = (u32, u64);

/// Begins a session, and dumps in it. If a store is full and has versions that are too many, drops these, and does it once more. Collective.
pub fn dump_with_room<'s>(
    begin: impl Fn() -> Result<Session<'s>>,
    options: &Options,
    dump: impl Fn(&Session<'s>) -> Result<Dumped>,
) -> Result<Dumped> {
    let session = begin()?;
    let failure = match dump(&session) {
        Err(error) if !error.is_transport() => error,
        done => return done,
    };
    let Some((dropped, freed)) = make_room(&session, options, &failure)? else { return Err(failure) };
    // It has the locks, and knows the versions that were there.
    drop(session);
    let done = dump(&begin()?)?;
    Ok(Dumped { dropped: done.dropped + dropped, freed: done.freed + freed, ..done })
}

/// Drops the versions that are too many already. Returns `None` if it drops none. Collective: each rank has the failure of the dump, its own or that of
/// another rank.
fn make_room(session: &Session<'_>, options: &Options, failure: &Error) -> Result<Option<DroppedVersions>> {
    let Session { world, name, versions, .. } = session;
    let is_full = matches!(failure, Error::Store(terrace::Error::NoSpace { .. }));
    if world.most(u64::from(is_full))? == 0 {
        return Ok(None);
    }
    let Some((keep, old)) = options.keep.and_then(|keep| Some((keep, count_old(versions.len(), keep)?))) else {
        return Ok(None);
    };
    let made = || {
        if !is_one_whole(session, keep, options.window)? {
            return Err(Error::Refused(format!(
                "none of the newest {keep} is whole; restore an older one first, or free space in the stores"
            )));
        }
        session.each_node(|| {
            remove_incomplete_versions(session)?;
            // The space of what is removed is free once a sync covers the removal, and `gc` may need some.
            session.store.sync()?;
            Ok(session.store.reap_now()?)
        })?;
        drop_versions(session, keep)
    };
    match made() {
        Err(error) if error.is_transport() => Err(error),
        Err(error) => {
            if world.rank() == 0 {
                tracing::warn!("versions of dump {name:?} that are too many are not dropped to make room: {error}");
            }
            Ok(None)
        }
        Ok(freed) => {
            fail::point("dump:room");
            if world.rank() == 0 {
                tracing::warn!(
                    "dump {name:?} has failed: {failure}; to make room, {old} of its versions are dropped, which were too many already, and it \
                     is tried once more"
                );
            }
            Ok(Some((old, freed)))
        }
    }
}

/// Returns whether one of the newest versions can be restored. Without one, an older version may be the only one that can. Collective.
fn is_one_whole(session: &Session<'_>, keep: NonZeroU32, window: usize) -> Result<bool> {
    for version in session.versions.keys().rev().take(keep.get() as usize) {
        if seems_whole(session, *version, window)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the number of versions that are too many; `None` if there are none.
fn count_old(versions: usize, keep: NonZeroU32) -> Option<u32> {
    let old = (versions as u32).saturating_sub(keep.get());
    (old > 0).then_some(old)
}

/// Drops the versions that are too old to be kept beside a new one, and returns their number, and the bytes that this rank has freed.
/// Collective.
pub fn drop_older_versions(session: &Session<'_>, version: u32, options: &Options) -> Result<DroppedVersions> {
    let Session { world, name, versions, .. } = session;
    let Some((keep, old)) = options.keep.and_then(|keep| Some((keep, count_old(versions.len() + 1, keep)?))) else {
        return Ok((0, 0));
    };
    match drop_versions(session, keep) {
        Ok(freed) => Ok((old, freed)),
        Err(error) if error.is_transport() => Err(error),
        Err(error) => {
            if world.rank() == 0 {
                tracing::warn!(
                    "version {version} of dump {name:?} exists, and older ones are not all dropped: {error}"
                );
            }
            Ok((0, 0))
        }
    }
}

/// Drops all but the newest versions of each store. Returns the bytes that this rank has freed. Collective.
fn drop_versions(session: &Session<'_>, keep: NonZeroU32) -> Result<u64> {
    let Session { world, store, name, .. } = session;
    // In all stores or in none: a restore of an older version may have begun in one of them.
    let locked = if world.leads() { Locks::for_drop(store, name) } else { Ok(Locks::default()) };
    let _locks = agree(*world, locked)?;
    let collect = || Ok(gc::collect_locked(store, name, keep.get() as usize)?.freed);
    agree(*world, if world.leads() { collect() } else { Ok(0) })
}

/// Removes the remains of dumps that were never completed. Also restores this store's record of a completed version if
/// only other stores have it, because a rank died while the record was written.
pub fn remove_incomplete_versions(session: &Session<'_>) -> Result<()> {
    let Session { store, name, .. } = session;
    for (version, complete) in session.versions.iter().filter(|(_, complete)| complete.stores.contains(&store.id())) {
        let key = names::version_prefix(name, Part::Complete, *version);
        let known = !names::list_below(store, &key)?.is_empty();
        if !known && !names::list_below(store, &names::version_prefix(name, Part::Index, *version))?.is_empty() {
            manifest::put(store, &key, complete)?;
        }
    }
    let newest = session.versions.keys().next_back().copied();
    for part in [Part::Index, Part::Manifest, Part::Packs] {
        for key in names::list_below(session.store, &names::part_prefix(session.name, part))? {
            if names::version_of(&key).is_some_and(|version| newest.is_none_or(|newest| version > newest)) {
                session.store.remove(key.as_bytes())?;
            }
        }
    }
    Ok(())
}
