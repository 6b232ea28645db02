//! Compression without a store, for tiers that the caller describes.

use std::ffi::{c_char, c_void};
use std::time::Instant;

use serde_json::{Value, json};
use terrace_codec::Encoding;
use terrace_cost::{Objective, TargetRates, Weights};

use crate::bytes::{Packed, check_length, choose};
use crate::failure::guard;
use crate::{Failure, Status};
use terrace_foreign::{caller_buffer, caller_bytes, items, parsed, text, write_out_text};

/// The most tiers of a call.
const MAX_TIERS: usize = 64;

/// A place for compressed bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TierSpeed {
    /// Its name, which the report tells; or null.
    pub name: *const c_char,
    /// The bytes that it reads in a second.
    pub read: f64,
    /// The bytes that it writes in a second.
    pub write: f64,
    /// The seconds before the first byte.
    pub latency: f64,
    /// The most bytes that it takes; or 0, if it takes any number.
    pub room: u64,
}

/// The tiers and weights for which bytes are compressed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Compression {
    /// `sizeof(terrace_compression)`. Later versions may be longer.
    pub size: usize,
    /// The tiers that may get the bytes.
    pub tiers: *const TierSpeed,
    /// The number of tiers.
    pub tier_count: usize,
    /// The weights for choosing encodings: `"compress,decompress,ratio"` or a preset's name; or null.
    pub weights: *const c_char,
    /// The expected number of reads.
    pub reads: f64,
}

/// Compresses at most one gibibyte into `out` for the best tier of `wanted`, and `made` gets the number of bytes. For each tier, the
/// encoding is chosen that costs least to encode, write, read and decode, by the weights. The bytes are compressed for the tier where that
/// costs least among those that have room for them. `terrace_decompress` takes the result.
///
/// If `json` is not null, it gets a report: `tier` (its number in `tiers`, from 0), its `name`, the `encoding`, the `raw` and `stored` bytes,
/// the seconds that encoding took, and for each tier the `encoding`, the `stored` bytes and the `seconds` that were expected. The caller
/// passes the text to `terrace_free`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_compress_for(
    wanted: *const Compression,
    bytes: *const c_void,
    length: usize,
    out: *mut c_void,
    capacity: usize,
    made: *mut usize,
    json: *mut *mut c_char,
) -> Status {
    guard(|| {
        let (raw, out) = (caller_bytes(bytes, length)?, caller_buffer(out, capacity)?);
        check_length(length)?;
        if wanted.is_null() {
            return Err(Failure::Invalid("the wanted compression is null".into()));
        }
        // SAFETY: the caller passes a structure that begins with its size, and has that many bytes.
        let size = unsafe { std::ptr::addr_of!((*wanted).size).read() };
        if size != size_of::<Compression>() {
            let known = size_of::<Compression>();
            return Err(Failure::Invalid(format!(
                "terrace_compression has {size} bytes, and the library knows {known}; set `size` to its sizeof"
            )));
        }
        // SAFETY: it has the size that was just checked.
        let Compression { tiers, tier_count, weights, reads, .. } = unsafe { wanted.read() };
        let weights: Weights = parsed(weights, "weights")?.unwrap_or(Weights::EQUAL);
        if !(reads >= 0.0 && reads.is_finite()) {
            return Err(Failure::Invalid(format!("{reads} is no number of reads")));
        }
        if !(1..=MAX_TIERS).contains(&tier_count) {
            return Err(Failure::Invalid(format!("{tier_count} tiers; describe 1 to {MAX_TIERS}")));
        }
        let tiers = items(tiers, tier_count, "the tiers")?;
        let tiers = tiers.iter().map(|tier| Candidate::of(tier, weights, reads, raw)).collect::<Result<Vec<_>, _>>()?;
        let chosen = Chosen::of(&tiers, raw)?;
        chosen.packed.write_to(raw, out, made)?;
        if json.is_null() { Ok(()) } else { Ok(write_out_text(json, chosen.report(&tiers, raw).to_string())?) }
    })
}

/// A tier, and the encoding that is best for it.
struct Candidate<'a> {
    name: Option<&'a str>,
    room: u64,
    encoding: Encoding,
    /// The expected number of bytes.
    stored: f64,
    /// The expected seconds, reads included.
    seconds: f64,
    /// The expected cost by the weights, dearer where little is known.
    cost: f64,
}

impl<'a> Candidate<'a> {
    fn of(tier: &TierSpeed, weights: Weights, reads: f64, raw: &[u8]) -> Result<Candidate<'a>, Failure> {
        let name = text(tier.name, "a tier's name")?;
        let is_speed = |speed: f64| speed > 0.0 && speed.is_finite();
        let is_latency = tier.latency >= 0.0 && tier.latency.is_finite();
        if !(is_speed(tier.read) && is_speed(tier.write) && is_latency) {
            let (read, write, latency) = (tier.read, tier.write, tier.latency);
            let name = name.unwrap_or("without a name");
            return Err(Failure::Invalid(format!(
                "the tier {name} reads {read} and writes {write} bytes a second after {latency} s; give speeds above 0"
            )));
        }
        let target = TargetRates::from_speeds(tier.write, tier.read, tier.latency);
        let objective = Objective { weights, target, reads };
        let choice = choose(raw, &objective);
        Ok(Candidate {
            name,
            room: if tier.room == 0 { u64::MAX } else { tier.room },
            encoding: choice.encoding,
            stored: choice.expected.stored * raw.len() as f64,
            seconds: Objective::time(target, reads).cost(&choice.expected, raw.len()),
            cost: objective.cost(&choice.weighed(), raw.len()),
        })
    }
}

/// The tier whose expected cost is least among those that have room, and the bytes for it.
struct Chosen {
    tier: usize,
    packed: Packed,
    encode_seconds: f64,
}

impl Chosen {
    fn of(tiers: &[Candidate<'_>], raw: &[u8]) -> Result<Chosen, Failure> {
        let mut order: Vec<usize> = (0..tiers.len()).collect();
        order.sort_by(|a, b| tiers[*a].cost.total_cmp(&tiers[*b].cost));
        let mut last: Option<(Encoding, Packed, f64)> = None;
        for tier in order {
            let wanted = tiers[tier].encoding;
            let (encoding, packed, encode_seconds) = match last.take().filter(|(encoding, ..)| *encoding == wanted) {
                Some(same) => same,
                None => {
                    let begin = Instant::now();
                    (wanted, Packed::of(wanted, raw)?, begin.elapsed().as_secs_f64())
                }
            };
            if packed.length as u64 <= tiers[tier].room {
                return Ok(Chosen { tier, packed, encode_seconds });
            }
            last = Some((encoding, packed, encode_seconds));
        }
        let names: Vec<&str> = tiers.iter().map(|tier| tier.name.unwrap_or("a tier without a name")).collect();
        Err(engine::Error::NoSpace { tiers: names.join(", ") }.into())
    }

    fn report(&self, tiers: &[Candidate<'_>], raw: &[u8]) -> Value {
        let expected: Vec<Value> = tiers.iter().map(expected).collect();
        json!({
            "tier": self.tier,
            "name": tiers[self.tier].name,
            "encoding": self.packed.encoding.to_string(),
            "raw": raw.len(),
            "stored": self.packed.length,
            "encode_seconds": self.encode_seconds,
            "tiers": expected,
        })
    }
}

fn expected(tier: &Candidate<'_>) -> Value {
    json!({
        "name": tier.name,
        "encoding": tier.encoding.to_string(),
        "stored": tier.stored as u64,
        "seconds": tier.seconds,
    })
}
