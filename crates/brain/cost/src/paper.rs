use crate::{Affine, Expected, TargetRates, Weights};

/// Returns the cost by HReplica eq. 2 and HCompress eq. 4: `w_c t_c + t - w_r t (r_c - 1) / r_c + w_d t_d`, with `t =
/// size / bandwidth`. It ignores latency and reads.
pub fn paper(target: &TargetRates, encoding: &Expected, weights: &Weights, _reads: f64) -> Affine {
    let saved = 1.0 - encoding.stored;
    let io = target.write * (1.0 - weights.ratio * saved);
    Affine { fixed: 0.0, per_byte: weights.compress * encoding.encode + io + weights.decompress * encoding.decode }
}
