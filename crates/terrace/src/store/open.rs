//! Opening a store: once for each process, shared by all who ask.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};

use rustix_futex_sync::Mutex;
use terrace_predict::Predictor;

use super::appends::AppendTurns;
use super::sole::sole;
use super::{Inner, Last, Leases, Rules, STAGE_BYTES, Store, Tiers, boot, lock_file, read_identity};
use crate::catalog::{Catalog, Edit};
use crate::config::Config;
use crate::hotness::Hotness;
use crate::log::Log;
use crate::mover::Mover;
use crate::place::{Planner, Streams};
use crate::read::{Cache, Fetched};
use crate::tier::Ids;
use crate::{Error, Result, fail};

/// The stores that this process has open: LMDB's environment can be opened only once in a process.
static STORES: LazyLock<Mutex<HashMap<PathBuf, Weak<Last>>>> = LazyLock::new(Mutex::default);

impl Store {
    /// Opens the store in `dir`, or shares it with those of this process that have it open. After a reboot that took
    /// the machine by surprise the first opener makes the catalog anew from the commit log.
    ///
    /// A process that was forked from one with an open store must open it again; what it inherited refuses to work.
    pub fn open(dir: &Path) -> Result<Store> {
        let id = read_identity(dir)?;
        let dir = fs::canonicalize(dir).map_err(Error::io(format!("opening {}", dir.display())))?;
        let _held = crate::fork::hold();
        made_once();
        let mut stores = STORES.lock();
        match stores.get(&dir).and_then(Weak::upgrade) {
            Some(last) if last.0.catalog.inherited() => last.0.catalog.leave(),
            Some(last) => return Ok(Store { inner: last.0.clone(), _last: last }),
            None => {}
        }
        let inner = Arc::new(open(&dir, id)?);
        let last = Arc::new(Last(inner.clone()));
        stores.retain(|_, last| last.strong_count() > 0);
        stores.insert(dir, Arc::downgrade(&last));
        Ok(Store { inner, _last: last })
    }
}

/// Makes what a process makes once, while it cannot be forked: a fork would wait for ever for what another thread of its
/// parent was making.
fn made_once() {
    drop(Predictor::default());
    fail::point("opening");
}

fn open(dir: &Path, id: u64) -> Result<Inner> {
    let rules = Rules::read(dir)?;
    let config = Config::clone(&rules.now());
    let lock = lock_file(dir)?;
    boot::prepare(dir, &lock)?;
    let sole = sole(dir)?;
    let log = Log::open(&dir.join("log"), id)?;
    let catalog = Arc::new(Catalog::open(&dir.join("catalog"), log)?);
    let ids: Arc<dyn Ids> = catalog.clone();
    let tiers = Tiers::open(&config, id, dir, &ids)?;
    let inner = Inner {
        dir: dir.to_owned(),
        cache: Cache::new(config.store.cache.0),
        fetched: Fetched::default(),
        config,
        rules,
        catalog,
        tiers,
        mover: Mover::default(),
        streams: Streams::new(dir),
        planner: Planner::default(),
        hotness: Hotness::new(dir),
        stage_bytes: fail::limit("TERRACE_STAGE_BYTES", STAGE_BYTES),
        leases: Leases::new(dir),
        appends: AppendTurns::open(dir),
        sole,
        lock,
    };
    crate::care::recover(&inner)?;
    inner.rules_begin();
    boot::opened(dir)?;
    if boot::alone(dir, &inner.lock).is_ok() {
        // Nobody else has the store open: what is staged has no writer any more.
        for (object, _) in inner.catalog.staged()? {
            inner.catalog.commit(Edit::Unstage { object }.into())?;
        }
        inner.drop_dead_leases()?;
        inner.sweep()?;
        inner.leases.clear();
    }
    boot::shared(dir, &inner.lock)?;
    Ok(inner)
}
