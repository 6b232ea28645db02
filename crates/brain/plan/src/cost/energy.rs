use super::{Affine, EncodingRates};
use crate::policy::Weights;
use crate::snapshot::Rates;

/// Joules: a target's watts for as long as it works to write or read, a core's for as long as it encodes or decodes, and
/// what bytes in a tier that fills up make the next one draw more. Weights have no part in it, nor has what is waited for.
pub fn energy(target: &Rates, encoding: &EncodingRates, _weights: &Weights, reads: f64) -> Affine {
    let (work, displaced) = (&target.work, &target.displaced_joules);
    let device = target.watts * (work.write + reads * work.read) + displaced.write + reads * displaced.read;
    let core = encoding.compress + reads * encoding.decompress;
    Affine {
        fixed: target.watts * work.latency * (1.0 + reads),
        per_byte: device * encoding.share + target.core_watts * core,
    }
}
