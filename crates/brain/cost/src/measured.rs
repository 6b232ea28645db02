use crate::{Affine, Expected, TargetRates, Weights};

/// The physical estimate: `3 w_c t_c + latency + stored write + 3 w_d reads (latency + stored read + t_d)`, with
/// times per byte.
///
/// At equal weights this is the time in seconds of writing once and of reading `reads` times. The ratio has no term of
/// its own, because both transfers contain the saved bytes; if w_r is 1, only the transfers count. If the target fills
/// up, both transfers include the cost of displaced bytes.
pub fn measured(target: &TargetRates, encoding: &Expected, weights: &Weights, reads: f64) -> Affine {
    let encode = 3.0 * weights.compress * encoding.encode;
    let reads = 3.0 * weights.decompress * reads;
    let write = target.write + target.displaced_write;
    let read = target.read + target.displaced_read;
    Affine {
        fixed: target.latency * (1.0 + reads),
        per_byte: encode + write * encoding.stored + reads * (read * encoding.stored + encoding.decode),
    }
}
