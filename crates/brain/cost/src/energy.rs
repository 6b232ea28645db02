use crate::{Affine, Expected, TargetRates, Weights};

/// Joules: a target's watts for as long as it works to write or read, a core's for as long as it encodes or decodes, and
/// what bytes in a tier that fills up make the next one draw more. Neither weights nor waiting count.
pub fn energy(target: &TargetRates, encoding: &Expected, _weights: &Weights, reads: f64) -> Affine {
    let (work, displaced) = (&target.work, &target.displaced_joules);
    let device = target.watts * (work.write + reads * work.read) + displaced.write + reads * displaced.read;
    let core = encoding.encode + reads * encoding.decode;
    Affine {
        fixed: target.watts * work.latency * (1.0 + reads),
        per_byte: device * encoding.stored + target.core_watts * core,
    }
}
