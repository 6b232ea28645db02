//! What outlives a process of what was learned of a stream.

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;

use super::{Predictor, Stream};
use crate::candidates::{ALL, COUNT, NONE, position};
use crate::model::{Class, Evidence};
use terrace_cost::Expected;

/// Kinds of bytes of a class that are remembered: those that came last.
const KINDS: usize = 2;

/// What was measured of the bytes of a stream, for a process that goes on with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Seconds for a byte that the machine took for the reference work.
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

/// What an encoding did to the small sample, to the large one, and to blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    encoding: Encoding,
    did: [Option<Expected>; 3],
}

impl Memory {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

impl Predictor {
    /// What is worth remembering of a stream.
    pub fn remember(&self, stream: &Stream) -> Memory {
        let known =
            stream.kinds().flat_map(|known| known.iter().take(KINDS).filter(|known| !known.evidence.is_empty()));
        let kinds = known.map(|known| {
            let evidence = &*known.evidence;
            let did = |at: usize| [evidence.small[at], evidence.large[at], evidence.real[at]];
            let measured = (0..COUNT).filter(|at| did(*at).iter().any(Option::is_some));
            Kind {
                class: evidence.class,
                entropy: evidence.entropy,
                printable: evidence.printable,
                chosen: ALL[known.chosen].encoding,
                measured: measured.map(|at| Measured { encoding: ALL[at].encoding, did: did(at) }).collect(),
            }
        });
        Memory { machine: self.model.machine(), kinds: kinds.collect() }
    }

    /// Goes on with a stream of which this is remembered; what took time on another machine is taken to take as much
    /// longer or less here as all does. Where bytes have changed since, that is noticed as it is within a stream.
    pub fn recall(&self, stream: &mut Stream, memory: &Memory) {
        let slower = Some(self.model.machine() / memory.machine).filter(|slower| slower.is_finite()).unwrap_or(1.0);
        // The one that came last is added last.
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
                stream.known(kind.class).chosen = position(kind.chosen).unwrap_or(NONE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::made;
    use terrace_cost::{Objective, TargetRates};

    fn studied() -> Memory {
        let slow = Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0);
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        predictor.choose(&mut stream, &made(4, 1 << 20, 7).0, &slow);
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
        let (block, _) = made(4, 64 << 10, 7);
        let first = |mut stream| Predictor::default().choose(&mut stream, &block, &quick);
        let (before, anew) = (first(recalled(&studied())), first(Stream::new()));
        assert!(before.expected.stored < anew.expected.stored, "{before:?}, {anew:?}");
        let again = Predictor::default().remember(&recalled(&studied()));
        assert_eq!(again.kinds.len(), studied().kinds.len());
    }

    #[test]
    fn what_is_no_measurement_is_not_remembered() {
        let mut memory = studied();
        for did in memory.kinds.iter_mut().flat_map(|kind| &mut kind.measured).flat_map(|one| &mut one.did).flatten() {
            (did.stored, did.encode) = (f64::NAN, -1.0);
        }
        let stream = recalled(&memory);
        assert!(Predictor::default().expected(&stream).iter().all(|choice| choice.expected.stored.is_finite()));
    }
}
