//! Measures each encoding once on each block that the ranks of a job write.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch};
use terrace_simulate::Work;

use super::{Data, Job, RANK_COUNT};
use crate::oracle::{Cost, measure};

/// The maximum extent size.
const MAX_EXTENT_BYTES: usize = 1 << 20;

/// The codecs of HCompress, or their substitutes (docs/codecs.md).
const PAPER_CODECS: [&str; 9] = ["brotli", "bzip2", "deflate", "huffman", "lz4", "lzma", "lzo", "quicklz", "snappy"];

/// Lists the encodings that the engine chooses from, raw first, followed by the papers' other encodings.
pub fn encodings() -> impl Iterator<Item = Encoding> {
    ALL_ENCODINGS.iter().chain(RARE_ENCODINGS.iter().filter(|encoding| is_papers(**encoding))).copied()
}

/// Returns whether an encoding is a codec of the papers, without a transform.
pub fn is_papers(encoding: Encoding) -> bool {
    encoding.to_string().split('-').next().is_some_and(|name| PAPER_CODECS.contains(&name))
}

/// A job's data, bytes and steps, with the costs that were measured on them.
type Known = ((Data, usize, u64), Arc<Measured>);

/// The cost of every encoding on every block of a job's data.
pub struct Measured {
    /// The blocks. The simulator treats each as a separate kind of block.
    pub blocks: Vec<Block>,
    /// The ranges of blocks by rank, step and object.
    ranks: Vec<Vec<Vec<Range<usize>>>>,
}

/// A block with the cost of each encoding.
pub struct Block {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The costs, raw first.
    pub costs: Vec<(Encoding, Cost)>,
}

impl Block {
    /// Returns the cost of an encoding, if it was measured.
    pub fn cost(&self, encoding: Encoding) -> Option<&Cost> {
        self.costs.iter().find(|(known, _)| *known == encoding).map(|(_, cost)| cost)
    }
}

impl Measured {
    /// Runs every encoding on all blocks of a job. Jobs that write the same data share one measurement.
    pub fn of(job: &Job) -> Result<Arc<Measured>> {
        static KNOWN_MEASUREMENTS: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let written = (job.data, job.bytes, job.steps);
        let mut known = KNOWN_MEASUREMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, measured)) = known.iter().find(|(of, _)| *of == written) {
            return Ok(measured.clone());
        }
        let measured = Arc::new(Measured::new(job)?);
        known.push((written, measured.clone()));
        Ok(measured)
    }

    fn new(job: &Job) -> Result<Measured> {
        let mut blocks = Vec::new();
        let mut object = |bytes: Vec<u8>| {
            let first = blocks.len();
            blocks.extend(bytes.chunks(MAX_EXTENT_BYTES).map(<[u8]>::to_vec));
            first..blocks.len()
        };
        let mut step = |rank: usize, step: u64| {
            let objects = job.data.objects(rank as u64, step, job.bytes)?.into_iter();
            Ok(objects.map(|(_, bytes)| object(bytes)).collect())
        };
        let ranks = (0..RANK_COUNT).map(|rank| (0..job.steps).map(|number| step(rank, number)).collect::<Result<_>>());
        let ranks = ranks.collect::<Result<_>>()?;
        // One thread for each rank, because each rank has a core in the runs.
        let share = blocks.len().div_ceil(RANK_COUNT).max(1);
        let blocks = std::thread::scope(|scope| {
            let shares: Vec<_> = blocks.chunks(share).map(|share| scope.spawn(|| costs(share))).collect();
            let done = shares.into_iter().map(|share| share.join().map_err(|_| anyhow::anyhow!("a thread died"))?);
            done.collect::<Result<Vec<_>>>()
        })?;
        Ok(Measured { blocks: blocks.into_iter().flatten().collect(), ranks })
    }

    /// Returns the number of objects that a rank writes in its first step.
    pub fn objects_of_a_step(&self) -> usize {
        self.ranks.first().and_then(|steps| steps.first()).map_or(0, Vec::len)
    }

    /// Returns means of an encoding over all blocks: the bytes that it encodes per second, the bytes that it decodes per second, and the
    /// ratio of raw to encoded bytes.
    pub fn mean(&self, encoding: Encoding) -> [f64; 3] {
        let costs = self.blocks.iter().filter_map(|block| block.cost(encoding));
        let sum = costs.fold(Cost::default(), |sum, cost| sum + *cost);
        [sum.encode, sum.decode, sum.stored as f64].map(|part| self.total() / part.max(1e-9))
    }

    /// Returns the number of raw bytes.
    pub fn total(&self) -> f64 {
        self.blocks.iter().map(|block| block.bytes.len() as f64).sum()
    }
}

/// Runs every encoding on blocks.
fn costs(blocks: &[Vec<u8>]) -> Result<Vec<Block>> {
    let mut scratch = Scratch::default();
    let mut block = |bytes: &Vec<u8>| {
        let mut cost = |encoding| Ok((encoding, measure(encoding, bytes, &mut scratch)?));
        Ok(Block { bytes: bytes.clone(), costs: encodings().map(&mut cost).collect::<Result<_>>()? })
    };
    blocks.iter().map(&mut block).collect()
}

impl Work for Measured {
    fn steps(&self) -> usize {
        self.ranks.first().map_or(0, Vec::len)
    }

    fn objects(&self, process: usize, step: usize) -> usize {
        self.ranks[process][step].len()
    }

    fn block(&self, process: usize, step: usize, object: usize, block: usize) -> Option<usize> {
        self.ranks[process][step][object].clone().nth(block)
    }

    fn bytes(&self, kind: usize) -> u64 {
        self.blocks[kind].bytes.len() as u64
    }
}
