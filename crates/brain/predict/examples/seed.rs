//! Makes the initial model of a predictor: `cargo run --release --example seed [FILE...] > src/seed.json`. It profiles
//! synthetic data, and blocks of the files.

use std::error::Error;

use terrace_predict::Predictor;
use terrace_predict::made::{MadeKind, generate};

/// The size of a block.
const BLOCK_BYTES: usize = 256 << 10;
/// The number of blocks of each synthetic kind, and the maximum number of each file.
const BLOCKS_PER_SOURCE: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut predictor = Predictor::ignorant();
    for block in 0..BLOCKS_PER_SOURCE {
        for kind in MadeKind::ALL_KINDS {
            let (bytes, elements) = generate(kind, BLOCK_BYTES, block);
            predictor.profile(&bytes, elements)?;
            // For half of the blocks, the type of the elements is unknown.
            if elements.is_some() && block % 2 == 0 {
                predictor.profile(&bytes, None)?;
            }
        }
        for file in std::env::args().skip(1) {
            let bytes = std::fs::read(&file)?;
            let start = (bytes.len() as u64 * block / BLOCKS_PER_SOURCE) as usize;
            predictor.profile(&bytes[start..bytes.len().min(start + BLOCK_BYTES)], None)?;
        }
        eprintln!("{} of {BLOCKS_PER_SOURCE}", block + 1);
    }
    println!("{}", predictor.save());
    Ok(())
}
