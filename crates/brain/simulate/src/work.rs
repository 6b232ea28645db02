//! [`Work`]: what processes write; [`Phase`]: what they do with it.

use terrace_plan::policy::Ack;

/// What each process writes in each step: objects of blocks, each of some kind.
pub trait Work {
    /// Steps.
    fn steps(&self) -> usize;
    /// Objects that a process writes in a step.
    fn objects(&self, process: usize, step: usize) -> usize;
    /// The kind of an object's block of this number; none past its last.
    fn block(&self, process: usize, step: usize, object: usize, block: usize) -> Option<usize>;
    /// Bytes of a block of this kind.
    fn bytes(&self, kind: usize) -> u64;
}

/// What all processes do in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Write all steps, with so many seconds of computing between two.
    Write {
        /// When a write returns.
        ack: Ack,
        /// Seconds.
        computing: f64,
    },
    /// Read all that was written so many times.
    Read(usize),
}

/// The same for every process and step: so many objects of so many blocks, whose kinds take turns.
#[derive(Clone, Debug)]
pub struct Even {
    /// Steps.
    pub steps: usize,
    /// Objects of each process in a step.
    pub objects: usize,
    /// Blocks of an object.
    pub blocks: usize,
    /// Bytes of a block of each kind; at least one.
    pub kinds: Vec<u64>,
}

impl Work for Even {
    fn steps(&self) -> usize {
        self.steps
    }

    fn objects(&self, _process: usize, _step: usize) -> usize {
        self.objects
    }

    fn block(&self, process: usize, step: usize, object: usize, block: usize) -> Option<usize> {
        let number = (process + step) * self.objects * self.blocks + object * self.blocks + block;
        (block < self.blocks).then(|| number % self.kinds.len().max(1))
    }

    fn bytes(&self, kind: usize) -> u64 {
        self.kinds.get(kind).copied().unwrap_or_default()
    }
}
