//! [`BrainTarget`]: a target of a tier, as a C host describes it.

use std::ffi::c_char;

use terrace_cost::MeasuredSpeed;

use crate::Failure;
use terrace_foreign::text;

/// A place for bytes: a device, a directory, a node, a bucket. Targets with the same `tier` are one tier: they have the same speeds, power and
/// persistence, and stand one after the other. The fastest tier comes first: a later one never counts as faster than an earlier one, because its first
/// writes may go to memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BrainTarget {
    /// The name of its tier.
    pub tier: *const c_char,
    /// The name of its failure domain, such as its node: a plan never puts two replicas into one. Null, if it fails alone.
    pub domain: *const c_char,
    /// The bytes that it reads in a second. This and the next two are estimates, which reports correct.
    pub read: f64,
    /// The bytes that it writes in a second.
    pub write: f64,
    /// The seconds before the first byte.
    pub latency: f64,
    /// The free bytes.
    pub free: u64,
    /// The free and the used bytes; or 0, if they are as many as are free now. The fuller a tier is, the dearer are its bytes.
    pub total: u64,
    /// The power that it draws while it works, in watts, for `min_energy`; or 0.
    pub watts: f64,
    /// The number of operations that it runs at the same time; or 0 for one.
    pub lanes: u16,
    /// 1, if its bytes survive a reboot; 0, if they do not. Unless `allow_volatile` is set, at least one replica is on a persistent target.
    pub persistent: u8,
}

/// A [`BrainTarget`] whose values were checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DescribedTarget {
    pub tier: String,
    pub domain: Option<String>,
    pub reading: MeasuredSpeed,
    pub writing: MeasuredSpeed,
    pub free: u64,
    pub total: u64,
    pub watts: f64,
    pub lanes: u16,
    pub persistent: bool,
}

impl DescribedTarget {
    /// Checks the description of the target with this number.
    pub fn new(given: &BrainTarget, number: usize) -> Result<DescribedTarget, Failure> {
        let BrainTarget { tier, domain, read, write, latency, free, total, watts, lanes, persistent } = *given;
        let wrong = |reason: String| Failure::Invalid(format!("target {number}: {reason}"));
        let name = text(tier, "the tier's name")?.filter(|name| !name.is_empty() && !name.contains('+'));
        let name = name.ok_or_else(|| wrong("its tier needs a name without `+`".into()))?;
        let (reading, writing) = (MeasuredSpeed { rate: read, latency }, MeasuredSpeed { rate: write, latency });
        if !reading.is_sound() || !writing.is_sound() {
            let reason =
                format!("it reads {read} and writes {write} bytes a second after {latency} s; give speeds above 0");
            return Err(wrong(reason));
        }
        if !(watts >= 0.0 && watts.is_finite()) {
            return Err(wrong(format!("{watts} watts are no power")));
        }
        Ok(DescribedTarget {
            tier: name.to_owned(),
            domain: text(domain, "the failure domain's name")?.map(str::to_owned),
            reading,
            writing,
            free,
            total: total.max(free),
            watts,
            lanes: lanes.max(1),
            persistent: persistent != 0,
        })
    }
}
