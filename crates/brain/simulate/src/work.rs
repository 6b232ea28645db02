//! [`Work`]: the data that processes write; [`Phase`]: what they do with them.

use terrace_plan::policy::Ack;

/// The writes of each process in each step: objects of blocks, each block of some kind.
pub trait Work {
    /// Returns the number of steps.
    fn steps(&self) -> usize;
    /// Returns the number of objects that a process writes in a step.
    fn objects(&self, process: usize, step: usize) -> usize;
    /// Returns the kind of a block of an object; None past the last block.
    fn block(&self, process: usize, step: usize, object: usize, block: usize) -> Option<usize>;
    /// Returns the size of a block of this kind in bytes.
    fn bytes(&self, kind: usize) -> u64;
}

/// The phases of a simulation, which all processes execute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Write all steps, with a duration of computing between two steps.
    Write {
        /// The acknowledgement that a write waits for.
        ack: Ack,
        /// The duration of computing, in seconds.
        computing: f64,
    },
    /// Read everything that was written, this many times.
    Read(usize),
}

/// A uniform workload: every process writes the same number of objects in each step; the kinds of their blocks
/// alternate.
#[derive(Clone, Debug)]
pub struct Even {
    /// The number of steps.
    pub steps: usize,
    /// The number of objects of each process in a step.
    pub objects: usize,
    /// The number of blocks of an object.
    pub blocks: usize,
    /// The size of a block of each kind in bytes; at least one kind.
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
