//! Exchanges questions and answers between ranks.

use std::collections::BTreeMap;

use crate::Result;
use crate::exchange::{Letter, Moved, exchange};
use crate::transport::{World, agree};

/// Messages by the rank that they go to or come from.
pub type Said = BTreeMap<u32, Vec<u8>>;

/// Asks other ranks, answers what they ask, and returns what they answer. Collective.
pub fn ask_ranks(
    world: &dyn World,
    questions: &Said,
    window: usize,
    answer: impl FnOnce(&Said) -> Result<Said>,
) -> Result<(Said, Moved)> {
    let (asked, mut moved) = exchange_messages(world, questions, window)?;
    let answers = agree(world, answer(&asked))?;
    let (answered, back) = exchange_messages(world, &answers, window)?;
    moved += back;
    Ok((answered, moved))
}

/// Sends messages to other ranks and returns the messages that this rank receives. Collective.
pub fn exchange_messages(world: &dyn World, said: &Said, window: usize) -> Result<(Said, Moved)> {
    let letters: Vec<Letter<'_>> = said.iter().map(|(to, bytes)| Letter { to: *to, parts: vec![bytes] }).collect();
    let mut heard = Said::new();
    let moved = exchange(world, &letters, window, &mut |from, bytes| {
        heard.entry(from).or_default().extend_from_slice(bytes);
        Ok(())
    })?;
    Ok((heard, moved))
}
