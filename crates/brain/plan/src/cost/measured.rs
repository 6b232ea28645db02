use super::{Affine, EncodingRates};
use crate::policy::Weights;
use crate::snapshot::Rates;

/// The physical estimate: `3 w_c t_c + latency + size / r_c / write + 3 w_d reads (latency + size / r_c / read + t_d)`.
///
/// At equal weights that is the time, in seconds, of writing once and of reading `reads` times. The ratio needs no
/// weight of its own: what it saves is in both transfers, and where w_r is 1 they are all that counts. To both comes what
/// bytes in a tier that fills up keep from it.
pub fn measured(target: &Rates, encoding: &EncodingRates, weights: &Weights, reads: f64) -> Affine {
    let compress = 3.0 * weights.compress * encoding.compress;
    let reads = 3.0 * weights.decompress * reads;
    let write = target.write + target.displaced_write;
    let read = target.read + target.displaced_read;
    Affine {
        fixed: target.latency * (1.0 + reads),
        per_byte: compress + write * encoding.share + reads * (read * encoding.share + encoding.decompress),
    }
}
