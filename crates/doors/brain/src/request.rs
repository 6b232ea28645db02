//! [`BrainRequest`]: the wishes for some bytes, as a C host states them.

use std::ffi::c_char;
use std::ptr;

use terrace_codec::Element;
use terrace_cost::Weights;
use terrace_plan::policy::{Ack, Ask, Asked, Budget, Policy, Replicas, Resolution, resolve};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::Failure;
use crate::storage::Storage;
use terrace_foreign::{parsed, text};

/// The replicas of a request that allows more than one, and says no number: as in the paper.
const DEFAULT_MAX_REPLICAS: u8 = 5;

/// Some bytes, and the wishes for them. Zeros leave everything to the library. The guide to requirements describes the words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BrainRequest {
    /// The name of the file, object or stream that the bytes are part of; or null. What is learned of bytes counts for those of the same name, of
    /// names that differ in numbers only (`"step_1.h5"`, `"step_2.h5"`), and of names in the same folder with the same ending.
    pub key: *const c_char,
    /// The place of the bytes in it. The first bytes of a file may tell what is in the others.
    pub offset: u64,
    /// The type of the elements, such as `"f64"`; or null.
    pub element: *const c_char,
    /// Requirements by name, such as `"min_read_latency,max_durability=4"`; or null.
    pub requirements: *const c_char,
    /// The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
    pub weights: *const c_char,
    /// The state that the host's write waits for: `"placed"` (replica 0 is written), `"replicated"` (all are) or `"durable"` (all are, on
    /// persistent targets); or null for the first.
    pub ack: *const c_char,
    /// The maximum of stored bytes for each given byte, over all replicas, such as `"3x"`; or null.
    pub budget: *const c_char,
    /// The only tiers to use, such as `"ram+disk"`; or null.
    pub tiers: *const c_char,
    /// The highest latency, in seconds, of the target that holds replica 0; or 0.
    pub max_latency: f64,
    /// How often the bytes are expected to be read; or 0 for once.
    pub reads: f64,
    /// The number of replicas; or 0, if the requirements decide it. If they do not, it is the least number; under a budget, as many as fit.
    pub replicas: u8,
    /// The least number of replicas; or 0 for one. A plan has fewer only if there is no place for more.
    pub min_replicas: u8,
    /// The highest number of replicas, at most 16; or 0 for five.
    pub max_replicas: u8,
    /// 1, if all replicas may be on targets that a reboot empties, as for a cache.
    pub allow_volatile: u8,
}

/// No wishes.
pub(crate) const EMPTY_REQUEST: BrainRequest = BrainRequest {
    key: ptr::null(),
    offset: 0,
    element: ptr::null(),
    requirements: ptr::null(),
    weights: ptr::null(),
    ack: ptr::null(),
    budget: ptr::null(),
    tiers: ptr::null(),
    max_latency: 0.0,
    reads: 0.0,
    replicas: 0,
    min_replicas: 0,
    max_replicas: 0,
    allow_volatile: 0,
};

/// A [`BrainRequest`] whose values were checked.
pub(crate) struct Wanted<'a> {
    /// The name; empty if there is none.
    pub key: &'a str,
    pub offset: u64,
    pub element: Option<Element>,
    pub reads: f64,
    pub policy: Policy,
    /// The decisions between requirements that led to the policy.
    pub resolutions: Vec<Resolution>,
}

impl<'a> Wanted<'a> {
    /// Checks a request for these tiers.
    pub fn new(given: &BrainRequest, storage: &Storage) -> Result<Wanted<'a>, Failure> {
        let element = parsed(given.element, "element")?;
        let key = text(given.key, "the key")?.unwrap_or_default();
        let reads = check_number(given.reads, "reads")?;
        let budget: Option<Budget> = parsed(given.budget, "budget")?;
        let weights: Option<Weights> = parsed(given.weights, "weights")?;
        let ack: Option<Ack> = parsed(given.ack, "ack")?;
        let range = check_range(given)?;
        let wrong = |error| Failure::Invalid(format!("requirements: {error}"));
        let requirements =
            Asked::parse_all(text(given.requirements, "requirements")?.unwrap_or_default()).map_err(wrong)?;
        let max_latency = check_number(given.max_latency, "max_latency")?;
        let ask = Ask {
            requirements,
            replicas: (given.replicas > 0).then_some(given.replicas),
            ack,
            weights,
            budget,
            max_latency: (max_latency > 0.0).then_some(max_latency),
            tiers: text(given.tiers, "tiers")?.map(|names| storage.named(names)).transpose()?,
            volatile: Some(given.allow_volatile != 0),
        };
        let (policy, resolutions) = resolve(&ask, &Ask::default(), &Ask::default(), range);
        let reads = if reads == 0.0 { 1.0 } else { reads };
        Ok(Wanted { key, offset: given.offset, element, reads, policy, resolutions })
    }

    /// Returns a number for the file.
    pub fn file(&self) -> u64 {
        xxh3_64(self.key.as_bytes())
    }

    /// Returns a number for the bytes, by which one of several alike targets is chosen.
    pub fn hash(&self) -> u64 {
        xxh3_64_with_seed(&self.offset.to_le_bytes(), self.file())
    }
}

/// Returns the range of the number of replicas, and their number if no requirement decides it.
fn check_range(given: &BrainRequest) -> Result<Replicas, Failure> {
    let BrainRequest { replicas, min_replicas, max_replicas, .. } = *given;
    let least = min_replicas.max(1);
    let most = if max_replicas == 0 { DEFAULT_MAX_REPLICAS.max(least).max(replicas) } else { max_replicas };
    let within = |count: u8| (least..=most).contains(&count);
    if most > Replicas::MAX_COUNT || most < least || (replicas > 0 && !within(replicas)) {
        let allowed = Replicas::MAX_COUNT;
        let reason =
            format!("{replicas} replicas, at least {least} and at most {most}; give 1 to {allowed}, and in that order");
        return Err(Failure::Invalid(reason));
    }
    Ok(Replicas { min: least, max: most, default: least })
}

/// Refuses a number that is negative or none.
fn check_number(number: f64, what: &str) -> Result<f64, Failure> {
    let refused = || Failure::Invalid(format!("{what}: {number} is none; give a number from 0 on"));
    if number >= 0.0 && number.is_finite() { Ok(number) } else { Err(refused()) }
}
