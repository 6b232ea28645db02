use crate::{Affine, Expected, TargetRates, Weights};

/// The power of a processor core in watts, where no other is known.
pub const ASSUMED_CORE_WATTS: f64 = 10.0;

/// Returns the cost in joules: the power of the target while it writes and reads, the power of a core while it encodes
/// and decodes, and the energy of later bytes that a full tier displaces. It ignores weights and waiting times.
pub fn energy(target: &TargetRates, encoding: &Expected, _weights: &Weights, reads: f64) -> Affine {
    let (work, displaced) = (&target.work, &target.displaced_joules);
    let device = target.watts * (work.write + reads * work.read) + displaced.write + reads * displaced.read;
    let core = encoding.encode + reads * encoding.decode;
    Affine {
        fixed: target.watts * work.latency * (1.0 + reads),
        per_byte: device * encoding.stored + target.core_watts * core,
    }
}
