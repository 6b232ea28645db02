use super::{Affine, EncodingRates};
use crate::policy::Weights;
use crate::snapshot::Rates;

/// Joules: a target's watts for as long as it writes or reads, a core's for as long as it encodes or decodes. Weights
/// have no part in it.
pub fn energy(target: &Rates, encoding: &EncodingRates, _weights: &Weights, reads: f64) -> Affine {
    let device = (target.write + reads * target.read) * encoding.share;
    let core = encoding.compress + reads * encoding.decompress;
    Affine {
        fixed: target.watts * target.latency * (1.0 + reads),
        per_byte: target.watts * device + target.core_watts * core,
    }
}
