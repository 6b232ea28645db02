//! Processes, their threads, and what these do next.

use std::collections::VecDeque;

use crate::choose::Piece;
use crate::machine::{Machine, Serve};

/// What is done next.
pub(crate) enum Next {
    Serve(Serve),
    /// This begins to be read.
    Read(Piece),
    /// A core is done encoding.
    Free,
    /// This begins to be written: others know that its room is taken.
    Write(Piece),
    /// The node may learn how quickly this was written.
    Written(Piece),
    /// The node may learn how quickly this was read.
    Got(Piece),
    /// These are left to the movers.
    Owe(Box<[Piece]>),
}

#[derive(Default)]
pub(crate) struct Process {
    pub step: usize,
    pub pass: usize,
    /// The object that the next free thread takes.
    pub object: usize,
    /// Threads that are not through with the step.
    pub active: usize,
    /// Pieces that are being read from each target.
    pub asked: Vec<u32>,
    pub begun: f64,
    pub spent: f64,
}

#[derive(Default)]
pub(crate) struct Thread {
    pub process: usize,
    /// What it is at: the object, and the next block of it.
    pub at: Option<(usize, usize)>,
    /// What it has still to do, last first.
    pub todo: Vec<Next>,
}

/// The cores of a node, for those that plan: who finds none free plans later.
#[derive(Default)]
pub(crate) struct Cores {
    pub busy: usize,
    pub waiting: VecDeque<usize>,
}

/// Encodes a piece and writes it.
pub(crate) fn store(machine: &Machine<'_>, node: usize, piece: &Piece, todo: &mut Vec<Next>) {
    todo.extend(compute(machine, node, piece.encode));
    todo.push(Next::Write(*piece));
    todo.extend(machine.write(node, piece).into_iter().flatten().map(Next::Serve));
    todo.push(Next::Written(*piece));
}

/// Encoding or decoding, where it takes time.
pub(crate) fn compute(machine: &Machine<'_>, node: usize, seconds: f32) -> Option<Next> {
    (seconds > 0.0).then(|| Next::Serve(machine.compute(node, seconds.into())))
}
