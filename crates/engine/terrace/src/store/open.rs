//! Opens a store. The threads of a process share one opening.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};

use rustix_futex_sync::Mutex;
use terrace_catalog::log::{self, Log};
use terrace_catalog::{Catalog, Edit};
use terrace_member::Client;
use terrace_predict::Predictor;
use terrace_system::fail;
use terrace_system::reserve::Reserve;
use terrace_system::{Locked, remove_leftovers};

use super::engine::{Engine, Held};
use super::shared_node::{LOG_PATIENCE, SharedNode, of_log};
use super::{Last, Store, destroy};
use crate::care::{Survey, describe_older_directory};
use crate::config::Config;
use crate::devices::targets::KnownNodes;
use crate::home::{
    Cluster, Consistency, Duty, Rules, SalvageNote, TargetNote, Trust, boot, check_identity, lock_store, note_mounts,
    note_opened, note_owner, note_place, part_from_copies, refuse, take_sole,
};
use crate::journal::sync_before_replacing;
use crate::{Error, Result};

/// The stores that this process has open: LMDB's environment can be opened only once in a process. Locked under `fork::hold`
/// while a store is opened, recovery included, so that two threads share one opening, and no fork inherits the lock. It is taken
/// before all locks of a store.
static OPEN_STORES: LazyLock<Mutex<HashMap<PathBuf, Weak<Last>>>> = LazyLock::new(Mutex::default);

/// How much is known about the log when a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing. The log is compared with the catalog and the targets.
    Usual,
    /// It is complete, and a new catalog is made from it.
    Proven,
    /// It is damaged. Nothing is compared, discarded or committed.
    Damaged,
}

impl Store {
    /// Opens the store in `dir`, or shares it with other parts of this process that have it open. After the machine went
    /// down unexpectedly, the first opener makes a new catalog from the commit log.
    ///
    /// A process that was forked from one with an open store must open it again: the inherited handles refuse to work.
    ///
    /// # Errors
    /// [`Error::LogDamaged`] if the log lacks commits that the catalog or a target knows of. Then nothing is changed.
    pub fn open(dir: &Path) -> Result<Store> {
        Store::open_as(dir, Opening::Usual)
    }

    /// Checks that a store is in a directory, without opening it. The first step of opening it does the same.
    ///
    /// # Errors
    /// If no store is there, or one that must not be opened, such as a copy.
    pub fn check_dir(dir: &Path) -> Result<()> {
        check_identity(dir).map(drop)
    }

    pub(super) fn open_as(dir: &Path, opening: Opening) -> Result<Store> {
        match Cluster::read(dir)? {
            None => Store::open_by(dir, |dir, id| open(dir, id, opening)),
            Some(_) if opening == Opening::Usual => Store::open_by(dir, |dir, id| open_shared(dir, id, None)),
            Some(_) => {
                Err(refuse(dir, "several nodes share this store; the shared log mends its catalog, not this command"))
            }
        }
    }

    /// Opens the store in the process of its node.
    ///
    /// # Errors
    /// If a target is another store's, or cannot be opened as it is described.
    pub fn open_on_node(dir: &Path, node: &SharedNode) -> Result<Store> {
        Store::open_by(dir, |dir, id| open_shared(dir, id, Some(node.catalog())))
    }

    fn open_by(dir: &Path, open: impl FnOnce(&Path, u64) -> Result<Engine>) -> Result<Store> {
        let id = check_identity(dir)?;
        let dir = fs::canonicalize(dir).map_err(Error::io(format!("opening {}", dir.display())))?;
        let _held = terrace_system::fork::hold();
        made_once();
        let mut stores = OPEN_STORES.lock(); // see the static
        match stores.get(&dir).and_then(Weak::upgrade) {
            Some(last) if last.engine.catalog.inherited() => last.engine.catalog.leave(),
            Some(last) => return Ok(Store { engine: last.engine.clone(), last, internal: false }),
            None => {}
        }
        let engine = Arc::new(open(&dir, id)?);
        let last = Arc::new(Last::new(engine.clone()));
        stores.retain(|_, last| last.strong_count() > 0);
        stores.insert(dir, Arc::downgrade(&last));
        Ok(Store { engine, last, internal: false })
    }
}

/// Creates the process's statics while no fork can happen. Otherwise a fork could wait forever for a static that another
/// thread of its parent was creating.
fn made_once() {
    drop(Predictor::default());
    fail::point("opening");
}

/// Opens a store whose log several nodes share. `catalog` is that of the node, in its process; other processes read it, and ask the node
/// for changes.
fn open_shared(dir: &Path, id: u64, catalog: Option<Arc<Catalog>>) -> Result<Engine> {
    let is_node = catalog.is_some();
    let (catalog, lock) = match catalog {
        Some(catalog) => (catalog, lock_store(dir)?),
        None => {
            // Before the lock: a node that is just starting may need it alone.
            let client = Client::connect(dir, id, LOG_PATIENCE).map_err(of_log)?;
            let lock = lock_store(dir)?;
            let catalog = Arc::new(Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?);
            catalog.share(Box::new(client));
            (catalog, lock)
        }
    };
    boot::shared(dir, &lock)?;
    catalog.catch_up()?;
    let (rules, trust, sole) = (Rules::read(dir)?, Trust::open(dir), take_sole(dir)?);
    let cluster = Cluster::read(dir)?;
    let there = Some(catalog.members()?.into_iter().map(|(_, member)| member.node).collect());
    let nodes = KnownNodes { own: cluster.as_ref().map(|cluster| cluster.node.clone()), there };
    let mut engine = Engine::new(dir, Held { rules, trust, sole, lock, nodes }, catalog)?;
    engine.reads_newest = cluster.as_ref().is_some_and(|cluster| cluster.consistency == Consistency::Newest);
    // Other processes than the node compare no target.
    engine.tiers.tend_only(cluster.as_ref().filter(|_| is_node).map_or("", |cluster| &cluster.node));
    sync_before_replacing(&engine.catalog, &engine.tiers);
    engine.locks.set_duty(Duty::Nothing);
    // The first write notes them otherwise.
    let _ = engine.mover.rules_begin();
    Ok(engine)
}

fn open(dir: &Path, id: u64, opening: Opening) -> Result<Engine> {
    Reserve::new(dir).run_with(|| open_alone(dir, id, opening))
}

fn open_alone(dir: &Path, id: u64, opening: Opening) -> Result<Engine> {
    let rules = Rules::read(dir)?;
    let config = rules.now();
    let lock = lock_store(dir)?;
    // It may have been destroyed while this one waited for the lock; nothing must be made in its place.
    check_identity(dir)?;
    note_owner(dir, None)?;
    let log = Log::open(&dir.join("log"), id)?;
    if opening == Opening::Usual {
        check_salvage_has_ended(dir)?;
        check_is_newest(dir, &config)?;
        forget_distrusted_catalog(dir, &lock, &config, &log).map_err(|error| advise_unreadable(dir, error))?;
    }
    let was_cut_off = boot::read_mark(dir)?.was_cut_off();
    // Before anything is written to the catalog, which is not durable from then on.
    boot::mark_opened(dir, &config)?;
    let sole = take_sole(dir)?;
    if !boot::read_mark(dir)?.is_trusted() || !boot::has_catalog(dir) {
        Reserve::new(dir).prepare();
    }
    note_place(dir, id);
    let trust = Trust::open(dir);
    // Read before the catalog's end: a sync by another process moves both on.
    let reach = Survey::read_reach(dir, &config, id);
    let catalog = Arc::new(Catalog::open(&dir.join("catalog"), log)?);
    // Before any number is given out.
    part_from_copies(dir, &catalog)?;
    let had_records = !catalog.is_new()?;
    if opening == Opening::Usual && had_records {
        check_log_end(&catalog, reach, dir, &config).map_err(|error| advise_unreadable(dir, error))?;
        Survey::check_same(dir, &config, catalog.log())?;
    }
    catalog.delay_changes_until(trust.ends_at());
    let engine = Engine::new(dir, Held { rules, trust, sole, lock, nodes: KnownNodes::default() }, catalog)?;
    if opening == Opening::Damaged {
        // Nothing can be committed before the new log begins. The store is opened as usual afterwards.
        boot::shared(dir, &engine.lock)?;
        return Ok(engine);
    }
    check_targets_are_known(&engine, dir)?;
    engine.care.recover()?;
    // A new catalog knows them now.
    check_targets_are_known(&engine, dir)?;
    // Once more: targets that were just made have their markers now.
    note_mounts(dir, &config, false)?;
    // The first write notes them otherwise.
    let _ = engine.mover.rules_begin();
    if boot::alone(dir, &engine.lock).is_ok() {
        // An empty log is complete, if the power was cut before any commit was durable.
        let never_durable = was_cut_off && reach == Some(0);
        let is_log_complete =
            (reach.is_some() || had_records) && (engine.catalog.tail()?.sequence > 0 || never_durable);
        clear_leftovers(&engine, is_log_complete)?;
    }
    boot::shared(dir, &engine.lock)?;
    Ok(engine)
}

/// Removes what killed processes left. No other process has the store open, or can write here, so that the leftovers have no writer.
fn clear_leftovers(engine: &Engine, is_log_complete: bool) -> Result<()> {
    let dir = &engine.dir;
    remove_leftovers(dir, destroy::is_own_file);
    remove_leftovers(&dir.join("streams"), |_| true);
    remove_leftovers(&dir.join("datasets"), |_| true);
    for (object, _) in engine.catalog.staged()? {
        engine.catalog.commit(Edit::Unstage { object }.into())?;
    }
    engine.leases.drop_dead(&engine.catalog)?;
    // Frames that the log does not name are garbage only if the log is known to be complete.
    if is_log_complete && let Err(error) = engine.care.sweep(false) {
        tracing::warn!("{error}");
    }
    engine.leases.clear();
    note_opened(dir);
    engine.catalog.reserve().fill();
    Ok(())
}

/// Checks that no salvage has begun and not ended: what it has not offered yet would be swept.
fn check_salvage_has_ended(dir: &Path) -> Result<()> {
    let reason = "a salvage was stopped before its end; repeat `terrace rebuild --salvage`, or run `terrace rebuild` if all copies of the log \
                  are back";
    SalvageNote::read(dir)?.map_or(Ok(()), |_| Err(Error::LogDamaged(reason.to_owned())))
}

/// Checks that no target was found that was used with a newer copy of the directory.
fn check_is_newest(dir: &Path, config: &Config) -> Result<()> {
    TargetNote::find_newer(dir, config).first().map_or(Ok(()), |(place, _)| Err(describe_older_directory(place)))
}

/// Checks that the configuration names each target that holds replicas.
fn check_targets_are_known(engine: &Engine, dir: &Path) -> Result<()> {
    let held = engine.catalog.targets_with_frames()?;
    match held.into_iter().find(|target| engine.tiers.position(*target).is_none()) {
        None => Ok(()),
        Some(target) => Err(refuse(
            dir,
            &format!(
                "its file terrace.toml has no target {target}, which holds replicas: a tier's section was removed from it. Write it again as it \
                 was. `terrace drain` and `terrace tiers remove` give a tier up, also one that is gone"
            ),
        )),
    }
}

/// Removes the catalog, which is then made from the log, if the machine went down while it was in use, or if it or its mark
/// was removed. The log is checked first.
fn forget_distrusted_catalog(dir: &Path, lock: &Locked, config: &Config, log: &Log) -> Result<()> {
    let is_trusted = || Ok(boot::read_mark(dir)?.is_trusted() && boot::has_catalog(dir));
    if is_trusted()? || !boot::alone_unless(dir, lock, is_trusted)? {
        return Ok(());
    }
    // Another opener may have done it while this one waited.
    if !is_trusted()? {
        let was_cut_off = boot::read_mark(dir)?.was_cut_off();
        let survey = Survey::new(dir, config, log)?;
        survey.check_whole()?;
        survey.check(was_cut_off).map_err(advise_rebuild)?;
        if survey.lacks_last_record {
            let reason = "the record of its last commit is damaged or gone in all copies, though a snapshot has what the commit did";
            return Err(advise_rebuild(Error::LogDamaged(reason.to_owned())));
        }
        if boot::has_catalog(dir) {
            let why = match was_cut_off {
                true => "the machine, or a file system of the store, went down while it was in use",
                false => "its boot mark is missing or unreadable",
            };
            tracing::info!(store = %dir.display(), why, "discarded the catalog; it is made again from the log, which is whole");
        }
        boot::forget_catalog(dir)?;
        boot::mark_opened(dir, config)?;
    }
    boot::shared(dir, lock)
}

/// Checks that the log holds the catalog's last commit, and that both reach as far as the targets say, and as their copies of the log.
fn check_log_end(catalog: &Catalog, reach: Option<u64>, dir: &Path, config: &Config) -> Result<()> {
    loop {
        let tail = catalog.tail()?;
        let holds_end = catalog.log().holds_end(tail)?;
        if let Some(reach) = reach.filter(|reach| *reach > tail.sequence) {
            let end = tail.sequence;
            let own = log::read_reach(dir, catalog.log().store()).map(|reach| reach.sequence);
            let reason = match own.is_some_and(|own| own <= end) && holds_end {
                true => format!(
                    "the store's directory is an older copy of itself, such as a restored backup: it ends with commit {end}, and a target has \
                     seen commit {reach}"
                ),
                false => format!("log and catalog end with commit {end}, but the log was durable up to commit {reach}"),
            };
            return Err(advise_rebuild(Error::LogDamaged(reason)));
        }
        // What is durable need not be noted yet: a write that asks for it makes no sync mark.
        let longer = Survey::find_longer_copy(dir, config, catalog.log(), tail)?;
        let reason = match longer {
            None if holds_end => return Ok(()),
            Some(target) if holds_end => format!(
                "the store's directory is an older copy of itself, such as a restored backup: it ends with commit {}, and the copy of the log \
                 in {} goes on",
                tail.sequence,
                target.display()
            ),
            _ => format!("it does not hold commit {}, with which the catalog ends", tail.sequence),
        };
        // Otherwise, another process has trimmed the log, or has committed meanwhile: copies of the log have its commits once the catalog does.
        if catalog.tail()? == tail {
            return Err(advise_rebuild(Error::LogDamaged(reason)));
        }
    }
}

/// Says what to do if a file of the log cannot be read.
fn advise_unreadable(dir: &Path, error: Error) -> Error {
    if !matches!(error, Error::Io { .. }) {
        return error;
    }
    match log::check_readable(&dir.join("log")) {
        Err(unreadable) => {
            advise_rebuild(Error::LogDamaged(format!("it cannot be read ({unreadable}); check its disk")))
        }
        Ok(()) => error,
    }
}

fn advise_rebuild(error: Error) -> Error {
    match error {
        Error::LogDamaged(reason) => {
            Error::LogDamaged(format!("{reason}; `terrace rebuild` mends it, or says what is missing"))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use crate::{Ack, Config, Error, PutOptions, Store};

    /// A write that asks for durability makes no sync mark, and only marks noted on the targets how far the log must reach. So a directory
    /// from a backup was used, and what had become durable since the last mark was missing without a word.
    #[test]
    fn an_older_directory_is_noticed_before_a_mark_follows_what_is_durable() {
        let dir = tempfile::tempdir().expect("a folder");
        let (home, older) = (dir.path().join("store"), dir.path().join("older"));
        let disk = dir.path().join("disk");
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
        let config = Config::parse(&text, "test").expect("a configuration");
        let put = |store: &Store, key: &[u8]| {
            let options = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
            store.put_bytes(key, &[7; 90_000], &options).expect("puts");
        };
        let store = Store::init(&home, &config).expect("a store");
        put(&store, b"first");
        store.close().expect("closes");
        assert!(Command::new("cp").arg("-a").args([&home, &older]).status().expect("copies").success());
        let store = Store::open(&home).expect("opens");
        // No mark is made in the background now.
        let lock = store.engine.locks.wait_for_mover().expect("the lock");
        put(&store, b"second");
        drop(store);
        drop(lock);
        fs::remove_dir_all(&home).expect("removes");
        fs::rename(&older, &home).expect("renames");

        match Store::open(&home) {
            Err(Error::LogDamaged(reason)) => assert!(reason.contains("an older copy of itself"), "{reason}"),
            other => unreachable!("{:?}", other.map(drop)),
        }
        let store = Store::rebuild(&home).expect("rebuilds");
        assert_eq!(store.get(b"second").expect("reads"), [7; 90_000]);
    }
}
