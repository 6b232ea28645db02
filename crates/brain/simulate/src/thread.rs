//! Processes, their threads, and the threads' next actions.

use std::collections::VecDeque;

use crate::choose::Piece;
use crate::machine::{Machine, Serve};

/// An action.
pub(crate) enum Next {
    Serve(Serve),
    /// The read of a piece starts.
    Read(Piece),
    /// A core has finished encoding.
    Free,
    /// The write of a piece starts: others know that its space is taken.
    Write(Piece),
    /// The write of a piece ended: the node learns its duration.
    Written(Piece),
    /// The read of a piece ended: the node learns its duration.
    Got(Piece),
    /// These pieces are left to the movers.
    Owe(Box<[Piece]>),
}

#[derive(Default)]
pub(crate) struct Process {
    pub step: usize,
    pub pass: usize,
    /// The object that the next free thread takes.
    pub object: usize,
    /// The number of threads that have not finished the step.
    pub active: usize,
    /// The number of pieces being read from each target.
    pub asked: Vec<u32>,
    pub begun: f64,
    pub spent: f64,
}

#[derive(Default)]
pub(crate) struct Thread {
    pub process: usize,
    /// The current object, and its next block.
    pub at: Option<(usize, usize)>,
    /// The remaining actions, in reverse order.
    pub todo: Vec<Next>,
}

/// The cores of a node for planning: a thread that finds no free core plans later.
#[derive(Default)]
pub(crate) struct Cores {
    pub busy: usize,
    pub waiting: VecDeque<usize>,
}

/// Appends the actions that encode and write a piece.
pub(crate) fn store(machine: &Machine<'_>, node: usize, piece: &Piece, todo: &mut Vec<Next>) {
    todo.extend(compute(machine, node, piece.encode));
    todo.push(Next::Write(*piece));
    todo.extend(machine.write(node, piece).into_iter().flatten().map(Next::Serve));
    todo.push(Next::Written(*piece));
}

/// Returns the action of encoding or decoding, if it takes time.
pub(crate) fn compute(machine: &Machine<'_>, node: usize, seconds: f32) -> Option<Next> {
    (seconds > 0.0).then(|| Next::Serve(machine.compute(node, seconds.into())))
}
