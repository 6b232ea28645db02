//! What every encoding costs on what the ranks of a job write: measured once, on every block.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use terrace_codec::{ALL, Encoding, RARE, Scratch};
use terrace_simulate::Work;

use super::run::RANKS;
use super::{Data, Job};
use crate::oracle::{Cost, measure};

/// The longest extent.
const BLOCK: usize = 1 << 20;

/// The codecs of HCompress, or what stands in their place (docs/codecs.md).
const PAPERS: [&str; 9] = ["brotli", "bzip2", "deflate", "huffman", "lz4", "lzma", "lzo", "quicklz", "snappy"];

/// All that are chosen from, raw first, and at last those of the papers' that are not.
pub fn encodings() -> impl Iterator<Item = Encoding> {
    ALL.iter().chain(RARE.iter().filter(|encoding| is_papers(**encoding))).copied()
}

/// Whether an encoding is one of the papers': a codec by itself.
pub fn is_papers(encoding: Encoding) -> bool {
    encoding.to_string().split('-').next().is_some_and(|name| PAPERS.contains(&name))
}

/// Data, bytes and steps, and what encodings cost there.
type Known = ((Data, usize, u64), Arc<Measured>);

/// What every encoding costs on every block of a job's data.
pub struct Measured {
    /// The blocks: each is a kind of its own to the simulator.
    pub blocks: Vec<Block>,
    /// Which of them are of which rank, step and object.
    ranks: Vec<Vec<Vec<Range<usize>>>>,
}

/// A block, and what each encoding costs on it.
pub struct Block {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The costs, raw first.
    pub costs: Vec<(Encoding, Cost)>,
}

impl Block {
    /// What an encoding costs on it, if that was measured.
    pub fn cost(&self, encoding: Encoding) -> Option<&Cost> {
        self.costs.iter().find(|(known, _)| *known == encoding).map(|(_, cost)| cost)
    }
}

impl Measured {
    /// Runs every encoding on all blocks that the ranks of a job write; once, where many jobs write the same.
    pub fn of(job: &Job) -> Result<Arc<Measured>> {
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let written = (job.data, job.bytes, job.steps);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
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
            blocks.extend(bytes.chunks(BLOCK).map(<[u8]>::to_vec));
            first..blocks.len()
        };
        let mut step = |rank: usize, step: u64| {
            let objects = job.data.objects(rank as u64, step, job.bytes)?.into_iter();
            Ok(objects.map(|(_, bytes)| object(bytes)).collect())
        };
        let ranks = (0..RANKS).map(|rank| (0..job.steps).map(|number| step(rank, number)).collect::<Result<_>>());
        let ranks = ranks.collect::<Result<_>>()?;
        // As many at a time as there are ranks, each with a core, as in the runs.
        let share = blocks.len().div_ceil(RANKS).max(1);
        let blocks = std::thread::scope(|scope| {
            let shares: Vec<_> = blocks.chunks(share).map(|share| scope.spawn(|| costs(share))).collect();
            let done = shares.into_iter().map(|share| share.join().map_err(|_| anyhow::anyhow!("a thread died"))?);
            done.collect::<Result<Vec<_>>>()
        })?;
        Ok(Measured { blocks: blocks.into_iter().flatten().collect(), ranks })
    }

    /// Objects that a rank writes in its first step.
    pub fn objects_of_a_step(&self) -> usize {
        self.ranks.first().and_then(|steps| steps.first()).map_or(0, Vec::len)
    }

    /// An encoding on all blocks: bytes encoded and decoded in a second, and bytes before over bytes after.
    pub fn mean(&self, encoding: Encoding) -> [f64; 3] {
        let costs = self.blocks.iter().filter_map(|block| block.cost(encoding));
        let sum = costs.fold(Cost::default(), |sum, cost| sum + *cost);
        [sum.encode, sum.decode, sum.stored as f64].map(|part| self.total() / part.max(1e-9))
    }

    /// All bytes.
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
