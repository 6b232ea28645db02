//! Makes what a new predictor knows: `cargo run --release --example seed [FILE...] > src/seed.json`. Profiles made-up data, and
//! blocks out of the files.

use std::error::Error;

use terrace_predict::Predictor;
use terrace_predict::made::{KINDS, made};

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Blocks of each made-up kind, and at most of each file.
const BLOCKS: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut predictor = Predictor::ignorant();
    for block in 0..BLOCKS {
        for kind in 0..KINDS {
            let (bytes, elements) = made(kind, BLOCK, block);
            predictor.profile(&bytes, elements)?;
            // As often, nobody knows what they are.
            if elements.is_some() && block % 2 == 0 {
                predictor.profile(&bytes, None)?;
            }
        }
        for file in std::env::args().skip(1) {
            let bytes = std::fs::read(&file)?;
            let start = (bytes.len() as u64 * block / BLOCKS) as usize;
            predictor.profile(&bytes[start..bytes.len().min(start + BLOCK)], None)?;
        }
        eprintln!("{} of {BLOCKS}", block + 1);
    }
    println!("{}", predictor.save());
    Ok(())
}
