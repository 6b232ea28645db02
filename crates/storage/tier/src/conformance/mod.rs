//! The conformance suite: questions that each kind of target has to answer. The kind's [`Capabilities`] decide which answer
//! is right; there is one for each question.
//!
//! A crate that has a kind of its own enables the feature `conformance` for its tests and calls [`check`]. If the place of
//! its targets can become unreachable, it also calls [`check_outage`].

mod files;
mod frames;
mod outage;
mod owners;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use files::FILE_QUESTIONS;
use frames::FRAME_QUESTIONS;
use owners::OWNER_QUESTIONS;

use super::{Capabilities, Ids, Target, TargetKind, TargetOwner, TargetSettings};

pub use outage::{Outage, check_outage};

/// The store of the targets.
const STORE_ID: u64 = 77;
/// The most bytes that a target may allocate.
const CAPACITY_BYTES: u64 = 8 << 20;

/// An empty place, in which the suite makes targets.
pub struct Site {
    /// The place, and the options of the kind. The suite sets the capacity, and whether the target is persistent.
    pub settings: TargetSettings,
    /// An empty folder for what the stores of the targets keep.
    pub stores: PathBuf,
    /// Anything that has to live as long as the place: a temporary folder, a server.
    pub guard: Box<dyn Any>,
}

/// Asks a kind all questions, each on a site of its own.
///
/// # Panics
/// Where an answer is wrong.
pub fn check(kind: &dyn TargetKind, site: impl Fn() -> Site) {
    check_decorated(kind, site, |target, _| target);
}

/// As [`check`], for targets that are decorated. The decorator may use the folder that it is given.
///
/// # Panics
/// Where an answer is wrong.
pub fn check_decorated(
    kind: &dyn TargetKind,
    site: impl Fn() -> Site,
    decorate: impl Fn(Arc<dyn Target>, &Path) -> Arc<dyn Target>,
) {
    for question in FRAME_QUESTIONS.iter().chain(&OWNER_QUESTIONS).chain(&FILE_QUESTIONS) {
        question(&Trial::new(kind, site(), &decorate));
    }
}

type Question = fn(&Trial<'_>);
type Decorate<'a> = dyn Fn(Arc<dyn Target>, &Path) -> Arc<dyn Target> + 'a;

/// One question, and the site on which it is asked.
struct Trial<'a> {
    kind: &'a dyn TargetKind,
    capabilities: Capabilities,
    settings: TargetSettings,
    stores: PathBuf,
    decorate: &'a Decorate<'a>,
    ids: Arc<dyn Ids>,
    _guard: Box<dyn Any>,
}

impl<'a> Trial<'a> {
    fn new(kind: &'a dyn TargetKind, site: Site, decorate: &'a Decorate<'a>) -> Trial<'a> {
        let capabilities = kind.capabilities();
        let Site { mut settings, stores, guard } = site;
        settings.capacity = CAPACITY_BYTES;
        settings.persistent = !capabilities.ends_with_process;
        let ids = Arc::new(Counter(AtomicU64::new(1)));
        Trial { kind, capabilities, settings, stores, decorate, ids, _guard: guard }
    }
    /// The target of this number of a store.
    fn owner_of(&self, store: u64, number: u16) -> TargetOwner {
        let dir = self.stores.join(store.to_string());
        std::fs::create_dir_all(&dir).expect("the site's folder can be written");
        TargetOwner { store, number, dir, ids: self.ids.clone() }
    }

    fn owner(&self) -> TargetOwner {
        self.owner_of(STORE_ID, 1)
    }

    /// Opens the target as the kind gives it.
    fn open_bare(&self) -> Arc<dyn Target> {
        let opened = self.kind.open(&self.settings, &self.owner()).expect("opens the target");
        assert!(opened.trouble.is_none(), "{:?}", opened.trouble);
        opened.target
    }

    /// Opens the target and decorates it.
    fn open(&self) -> Arc<dyn Target> {
        (self.decorate)(self.open_bare(), &self.stores)
    }
}

/// Relaxed: each number only has to be a new one.
struct Counter(AtomicU64);

impl Ids for Counter {
    fn next(&self) -> io::Result<u64> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
