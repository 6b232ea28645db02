//! [`Ways`]: chooses the replicas that serve a request.

use std::ops::Range;
use std::sync::Arc;

use rustix_futex_sync::Mutex;
use terrace_views::convert::Plan;

use crate::Result;
use crate::touch::{GATHER_PIECE_BYTES, READ_GAP_BYTES, fetched_ranges, find_touched_parts};

/// The plans by which the bytes of a view can be read.
pub struct Ways {
    /// Reads each leaf from the replica that delivers all of it soonest.
    pub mixed: Arc<Plan>,
    /// Each reads everything from one replica. Empty if there is no choice.
    lone: Vec<Arc<Plan>>,
    /// The files of all replicas.
    files: Vec<FileRate>,
    /// The last choice for a series of requests. A leaf lock, held for a look.
    last: Mutex<Option<Choice>>,
}

/// How fast a file of a replica can be read.
#[derive(Clone, Copy, Debug)]
pub struct FileRate {
    /// Bytes per second.
    pub rate: f64,
    /// The length in bytes.
    pub length: u64,
}

/// A choice for requests of one length at one distance.
struct Choice {
    length: u64,
    stride: u64,
    /// The first bytes of the requests for which it was made.
    offsets: Range<u64>,
    /// The number of the plan.
    plan: usize,
}

/// Of requests at one distance, this number is looked at together: what one fetches is cached for the next.
const MAX_FORESEEN_REQUESTS: u64 = 32;

impl Ways {
    /// Joins plans: one that may read from all replicas, and others that read from one each.
    pub fn new(mixed: Arc<Plan>, lone: Vec<Arc<Plan>>, files: Vec<FileRate>) -> Ways {
        Ways { mixed, lone, files, last: Mutex::default() }
    }

    /// Returns the plan that delivers a request soonest: by the bytes that the store fetches for it, and the rates of their files. `stride` is
    /// the distance of the requests that are expected to follow.
    pub fn nearest(&self, offset: u64, length: u64, stride: Option<u64>) -> Result<&Plan> {
        let length = length.min(self.mixed.length().saturating_sub(offset)).min(GATHER_PIECE_BYTES);
        if self.lone.is_empty() || length == 0 {
            return Ok(&self.mixed);
        }
        let number = match stride.filter(|stride| *stride > 0) {
            Some(stride) => self.nearest_of_series(offset, length, stride)?,
            None => self.nearest_of(&[offset], length)?,
        };
        Ok(self.plan(number))
    }

    fn plan(&self, number: usize) -> &Plan {
        number.checked_sub(1).and_then(|lone| self.lone.get(lone)).unwrap_or(&self.mixed)
    }

    /// Returns the number of the plan for a request and those that follow it. The choice holds for all that were looked at.
    fn nearest_of_series(&self, offset: u64, length: u64, stride: u64) -> Result<usize> {
        let holds =
            |choice: &&Choice| (choice.length, choice.stride) == (length, stride) && choice.offsets.contains(&offset);
        if let Some(choice) = self.last.lock().as_ref().filter(holds) {
            return Ok(choice.plan);
        }
        let last = self.mixed.length() - length;
        let foreseen = (0..MAX_FORESEEN_REQUESTS).map_while(|number| offset.checked_add(number.checked_mul(stride)?));
        let offsets: Vec<u64> = foreseen.take_while(|offset| *offset <= last).collect();
        let plan = self.nearest_of(&offsets, length)?;
        let end = offsets.last().map_or(offset, |last| last + 1);
        *self.last.lock() = Some(Choice { length, stride, offsets: offset..end, plan });
        Ok(plan)
    }

    /// Returns the number of the plan for requests.
    fn nearest_of(&self, offsets: &[u64], length: u64) -> Result<usize> {
        if let [offset] = *offsets {
            let fastest = self.files.iter().map(|file| file.rate).fold(0.0, f64::max);
            // Nothing is sooner than the very bytes, as one run, from the fastest replica.
            let is_best = |number: &usize| {
                let run = self.plan(*number).straight(offset, length);
                run.is_some_and(|(file, _)| self.rate_of(file) >= fastest)
            };
            if let Some(best) = (0..=self.lone.len()).find(is_best) {
                return Ok(best);
            }
        }
        let mut best = (f64::INFINITY, 0);
        for number in 0..=self.lone.len() {
            let seconds = self.seconds(self.plan(number), offsets, length)?;
            if seconds < best.0 {
                best = (seconds, number);
            }
        }
        Ok(best.1)
    }

    /// Returns the length of a file.
    pub fn length_of(&self, file: usize) -> u64 {
        self.files.get(file).map_or(0, |file| file.length)
    }

    fn rate_of(&self, file: usize) -> f64 {
        self.files.get(file).map_or(0.0, |file| file.rate).max(f64::MIN_POSITIVE)
    }

    /// Estimates the time to fetch what requests touch.
    fn seconds(&self, plan: &Plan, offsets: &[u64], length: u64) -> Result<f64> {
        let mut parts = Vec::new();
        for offset in offsets {
            parts.extend(find_touched_parts(plan, *offset, length, READ_GAP_BYTES)?);
        }
        parts.sort_unstable_by_key(|part| (part.file, part.bytes.start));
        let ranges = fetched_ranges(&parts, |file| self.length_of(file)).into_iter();
        Ok(ranges.map(|(file, bytes)| (bytes.end - bytes.start) as f64 / self.rate_of(file)).sum())
    }
}
