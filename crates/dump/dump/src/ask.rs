//! Questions to other ranks, and their answers.

use std::collections::BTreeMap;

use crate::Result;
use crate::exchange::{Letter, Moved, exchange};
use crate::transport::{World, agree};

/// What is said to, or by, each rank.
pub type Said = BTreeMap<u32, Vec<u8>>;

/// Asks other ranks, answers what they ask, and returns what they answer. Collective.
pub fn ask(
    world: &dyn World,
    questions: &Said,
    window: usize,
    answer: impl FnOnce(&Said) -> Result<Said>,
) -> Result<(Said, Moved)> {
    let (asked, mut moved) = say(world, questions, window)?;
    let answers = agree(world, answer(&asked))?;
    let (answered, back) = say(world, &answers, window)?;
    moved += back;
    Ok((answered, moved))
}

/// Says something to other ranks; what they say to this one. Collective.
pub fn say(world: &dyn World, said: &Said, window: usize) -> Result<(Said, Moved)> {
    let letters: Vec<Letter<'_>> = said.iter().map(|(to, bytes)| Letter { to: *to, parts: vec![bytes] }).collect();
    let mut heard = Said::new();
    let moved = exchange(world, &letters, window, &mut |from, bytes| {
        heard.entry(from).or_default().extend_from_slice(bytes);
        Ok(())
    })?;
    Ok((heard, moved))
}
