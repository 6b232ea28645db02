//! The part of a stream's state that is saved between processes.

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;

use super::{Predictor, Stream};
use crate::candidates::{ALL_CANDIDATES, CANDIDATE_COUNT, NONE_INDEX, position};
use crate::model::{Class, Evidence};
use terrace_cost::Expected;

/// The maximum number of kinds saved per class, the most recent ones.
const MAX_REMEMBERED_KINDS: usize = 2;

/// The measurements of a stream, for a process that continues it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The seconds per byte that the machine took for the reference work.
    machine: f64,
    kinds: Vec<Kind>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kind {
    class: Class,
    entropy: Option<f64>,
    printable: f64,
    chosen: Encoding,
    measured: Vec<Measured>,
}

/// The results of an encoding on the small sample, on the large sample, and on blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    encoding: Encoding,
    did: [Option<Expected>; 3],
}

impl Memory {
    /// Returns whether the memory is empty.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

impl Predictor {
    /// Returns the part of a stream's state to save.
    pub fn remember(&self, stream: &Stream) -> Memory {
        let known = stream
            .kinds()
            .flat_map(|known| known.iter().take(MAX_REMEMBERED_KINDS).filter(|known| !known.evidence.is_empty()));
        let kinds = known.map(|known| {
            let evidence = &*known.evidence;
            let did = |at: usize| [evidence.small[at], evidence.large[at], evidence.real[at]];
            let measured = (0..CANDIDATE_COUNT).filter(|at| did(*at).iter().any(Option::is_some));
            Kind {
                class: evidence.class,
                entropy: evidence.entropy,
                printable: evidence.printable,
                chosen: ALL_CANDIDATES[known.chosen].encoding,
                measured: measured.map(|at| Measured { encoding: ALL_CANDIDATES[at].encoding, did: did(at) }).collect(),
            }
        });
        Memory { machine: self.model.machine(), kinds: kinds.collect() }
    }

    /// Restores the saved state of a stream. Times from another machine are scaled by the ratio of the machines'
    /// speeds. If the bytes have changed since, the stream detects that as it does within a process.
    pub fn recall(&self, stream: &mut Stream, memory: &Memory) {
        let slower = Some(self.model.machine() / memory.machine).filter(|slower| slower.is_finite()).unwrap_or(1.0);
        // The most recent kind is added last, so that it becomes the current one.
        for kind in memory.kinds.iter().rev() {
            let mut evidence = Evidence::none(kind.class);
            (evidence.entropy, evidence.printable) = (kind.entropy, kind.printable);
            for Measured { encoding, did } in &kind.measured {
                let Some(at) = position(*encoding) else { continue };
                let [small, large, real] =
                    did.map(|did| did.filter(Expected::is_sound).map(|did| did.on_slower(slower)));
                (evidence.small[at], evidence.large[at], evidence.real[at]) = (small, large, real);
            }
            if !evidence.is_empty() {
                stream.add(kind.class, evidence);
                stream.known(kind.class).chosen = position(kind.chosen).unwrap_or(NONE_INDEX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MadeKind, generate};
    use terrace_cost::{Objective, TargetRates};

    fn studied() -> Memory {
        let slow = Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0);
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        predictor.choose(&mut stream, &generate(MadeKind::FieldF64, 1 << 20, 7).0, &slow);
        predictor.remember(&stream)
    }

    fn recalled(memory: &Memory) -> Stream {
        let mut stream = Stream::new();
        Predictor::default().recall(&mut stream, memory);
        stream
    }

    #[test]
    fn a_stream_goes_on_where_another_process_left_it() {
        let quick = Objective::time(TargetRates::from_speeds(4e8, 4e8, 0.0), 1.0);
        // So little comes that it earns no measurement.
        let (block, _) = generate(MadeKind::FieldF64, 64 << 10, 7);
        let first = |mut stream| Predictor::default().choose(&mut stream, &block, &quick);
        let (continued, new) = (first(recalled(&studied())), first(Stream::new()));
        assert!(continued.expected.stored < new.expected.stored, "{continued:?}, {new:?}");
        let again = Predictor::default().remember(&recalled(&studied()));
        assert_eq!(again.kinds.len(), studied().kinds.len());
    }

    #[test]
    fn invalid_measurements_are_not_remembered() {
        let mut memory = studied();
        for did in memory.kinds.iter_mut().flat_map(|kind| &mut kind.measured).flat_map(|one| &mut one.did).flatten() {
            (did.stored, did.encode) = (f64::NAN, -1.0);
        }
        let stream = recalled(&memory);
        assert!(Predictor::default().expected(&stream).iter().all(|choice| choice.expected.stored.is_finite()));
    }
}
