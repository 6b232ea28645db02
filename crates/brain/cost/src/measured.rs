use crate::{Affine, Expected, TargetRates, Weights};

/// Estimates the cost of a replica that is written once and read `reads` times:
///
/// ```text
/// 3 w_c encode + latency + write + 3 w_d reads (latency + read + decode)
/// ```
///
/// `w_c` and `w_d` are the weights of encoding and decoding. Each is a third if all weights are equal, and the cost is then the time in
/// seconds. `write` and `read` are the times to transfer the stored bytes, so a denser encoding makes them shorter. For this reason the
/// weight of the ratio has no term. On a target that fills up, a transfer also takes the time to move other bytes away.
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
