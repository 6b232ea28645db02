//! The advice as data, for people and for scripts.

use serde::Serialize;

use super::candidates::Candidate;
use super::estimate::Fetch;
use crate::access::{Access, Shape};
use crate::loaded::Loaded;

/// How a dataset is read, and the replicas that could be added.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The dataset.
    pub dataset: String,
    /// The kinds of accesses, those first that read the most bytes. Accesses count half as much after a week.
    pub accesses: Vec<NotedAccess>,
    /// Replicas by which these accesses would fetch fewer bytes, the best first.
    pub proposals: Vec<Proposal>,
}

/// Accesses that read the same fields in the same shape.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct NotedAccess {
    /// The view.
    pub view: String,
    /// How often they occurred, lately.
    pub times: f64,
    /// The bytes of the view that each reads.
    pub bytes: u64,
    /// The bytes of replicas that each fetches, before encoding.
    pub fetched_bytes: u64,
    /// The expected time of each, in seconds.
    pub seconds: f64,
    /// The fields that are read.
    pub fields: Vec<NotedField>,
}

/// A field that an access reads.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct NotedField {
    /// Its path in the dataset.
    pub path: String,
    /// The first index of the last access in each dimension, and the end.
    pub indices: Vec<(u64, u64)>,
    /// Its lengths.
    pub lengths: Vec<u64>,
}

/// A replica that could be added.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Proposal {
    /// Its name.
    pub name: String,
    /// Its layout, in words.
    pub layout: String,
    /// The sections to append to the declaration.
    pub declaration: String,
    /// The number of noted accesses that it would serve.
    pub times: f64,
    /// The bytes that each of them fetches now, before encoding, and with the replica.
    pub fetched_bytes: (u64, u64),
    /// The expected seconds of each of them now, and with the replica.
    pub seconds: (f64, f64),
    /// The bytes that it would store, in all its copies.
    pub stored_bytes: u64,
    /// The expected time to make it, in seconds.
    pub make_seconds: f64,
    /// Whether it is worth it.
    pub verdict: Verdict,
}

/// Whether a replica is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The noted accesses would have saved more time than it takes to make it.
    Worth,
    /// They would have saved less.
    TooFewReads,
    /// They would save bytes, but no time.
    NotFaster,
    /// No tier has room for it.
    NoRoom,
}

impl NotedAccess {
    pub(super) fn new(loaded: &Loaded, access: &Access, shape: &Shape, now: &Fetch) -> NotedAccess {
        let leaves = &loaded.declared.model.dataset.leaves;
        let field = |slab: &terrace_views::convert::Slab| {
            let leaf = leaves.get(slab.leaf)?;
            Some(NotedField {
                path: leaf.path.clone(),
                indices: slab.indices.iter().map(|range| (range.start, range.end)).collect(),
                lengths: leaf.lengths.iter().map(|length| length.at(&loaded.sizes)).collect(),
            })
        };
        NotedAccess {
            view: access.view.clone(),
            times: access.times,
            bytes: access.run().bytes(),
            fetched_bytes: now.bytes.round() as u64,
            seconds: now.seconds,
            fields: shape.iter().filter_map(field).collect(),
        }
    }
}

impl Proposal {
    pub(super) fn new(candidate: &Candidate) -> Proposal {
        Proposal {
            name: candidate.name.clone(),
            layout: candidate.layout.clone(),
            declaration: candidate.text.clone(),
            times: 0.0,
            fetched_bytes: (0, 0),
            seconds: (0.0, 0.0),
            stored_bytes: 0,
            make_seconds: 0.0,
            verdict: Verdict::NotFaster,
        }
    }

    /// Sets the means of the accesses that it serves. Of each: how often it occurs, and what it fetches now and with the replica.
    pub(super) fn serve(&mut self, accesses: &[(f64, Fetch, Fetch)]) {
        self.times = accesses.iter().map(|(times, ..)| times).sum();
        let mean = |of: &dyn Fn(&(f64, Fetch, Fetch)) -> f64| {
            accesses.iter().map(|one| one.0 * of(one)).sum::<f64>() / self.times.max(f64::MIN_POSITIVE)
        };
        self.fetched_bytes = (mean(&|one| one.1.bytes).round() as u64, mean(&|one| one.2.bytes).round() as u64);
        self.seconds = (mean(&|one| one.1.seconds), mean(&|one| one.2.seconds));
    }

    pub(super) fn judge(&mut self, has_room: bool) {
        self.verdict = match () {
            () if !has_room => Verdict::NoRoom,
            () if self.saved_seconds() <= 0.0 => Verdict::NotFaster,
            () if self.net_seconds() <= 0.0 => Verdict::TooFewReads,
            () => Verdict::Worth,
        };
    }

    /// Returns whether it is worth it.
    pub fn is_worth(&self) -> bool {
        self.verdict == Verdict::Worth
    }

    /// Returns the time that each access would save, in seconds.
    pub fn saved_seconds(&self) -> f64 {
        self.seconds.0 - self.seconds.1
    }

    /// Returns the time that the noted accesses would have saved, less the time to make it, in seconds.
    pub fn net_seconds(&self) -> f64 {
        self.times * self.saved_seconds() - self.make_seconds
    }

    /// Returns the number of accesses after which it has saved the time that it takes to make it.
    pub fn reads_to_pay(&self) -> Option<u64> {
        (self.saved_seconds() > 0.0).then(|| (self.make_seconds / self.saved_seconds()).ceil() as u64)
    }
}
