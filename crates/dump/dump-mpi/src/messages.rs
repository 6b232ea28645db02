//! Windows made of messages, where MPI makes none: OpenMPI 4 has no one-sided communication over TCP for programs in which several threads
//! may call MPI, and none between processes that may not copy each other's memory.

use std::collections::BTreeMap;

use mpi::request::{self, WaitGuard};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use terrace_dump::transport::Window;
use terrace_dump::{Error, Result};

/// A message is sent once it has this many bytes; MPI counts at most 2^31 - 1.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// Memory of each rank, into which each rank copies the puts that it receives as messages.
pub struct MessageWindow<'b> {
    communicator: &'b SimpleCommunicator,
    memory: Vec<u8>,
    /// The messages for each rank until the next fence: for each put its offset, its length, and its bytes.
    messages: BTreeMap<u32, Vec<Vec<u8>>>,
}

impl<'b> MessageWindow<'b> {
    /// Opens the window.
    pub fn open(communicator: &'b SimpleCommunicator, bytes: usize) -> MessageWindow<'b> {
        MessageWindow { communicator, memory: vec![0; bytes], messages: BTreeMap::new() }
    }
}

impl<'b> Window<'b> for MessageWindow<'b> {
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()> {
        let messages = self.messages.entry(to).or_default();
        for (piece, at) in bytes.chunks(MAX_MESSAGE_BYTES).zip((offset..).step_by(MAX_MESSAGE_BYTES)) {
            let full = messages.last().is_none_or(|last| last.len() + piece.len() > MAX_MESSAGE_BYTES);
            if full {
                messages.push(Vec::new());
            }
            if let Some(last) = messages.last_mut() {
                last.extend((at as u64).to_le_bytes());
                last.extend((piece.len() as u64).to_le_bytes());
                last.extend_from_slice(piece);
            }
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<()> {
        let communicator = self.communicator;
        let outgoing = std::mem::take(&mut self.messages);
        let mut counts = vec![0u64; communicator.size() as usize];
        outgoing.iter().for_each(|(to, messages)| counts[*to as usize] = messages.len() as u64);
        let mut incoming = vec![0u64; counts.len()];
        communicator.all_to_all_into(&counts[..], &mut incoming[..]);
        let mut outcome = Ok(());
        request::scope(|scope| {
            // All are sent before any is received, and none blocks, so no two ranks wait for each other. The guards wait
            // until the messages have left.
            let each =
                outgoing.iter().flat_map(|(to, messages)| messages.iter().map(move |message| (*to as i32, message)));
            let _sent: Vec<_> = each
                .map(|(to, message)| {
                    WaitGuard::from(communicator.process_at_rank(to).immediate_send(scope, &message[..]))
                })
                .collect();
            for (from, count) in (0..).zip(&incoming) {
                for _ in 0..*count {
                    let message: Vec<u8> = communicator.process_at_rank(from).receive_vec().0;
                    if outcome.is_ok() {
                        outcome = place(&mut self.memory, &message);
                    }
                }
            }
        });
        outcome
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8])) {
        sink(&self.memory);
    }
}

/// Copies the puts of a message to their places.
fn place(memory: &mut [u8], mut message: &[u8]) -> Result<()> {
    let wrong = || Error::Transport { what: "receiving", reason: "a message does not fit the window".into() };
    while !message.is_empty() {
        let (offset, rest) = message.split_first_chunk().ok_or_else(wrong)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let (start, length) = (u64::from_le_bytes(*offset) as usize, u64::from_le_bytes(*length) as usize);
        let (bytes, rest) = rest.split_at_checked(length).ok_or_else(wrong)?;
        let place = start.checked_add(length).and_then(|end| memory.get_mut(start..end)).ok_or_else(wrong)?;
        place.copy_from_slice(bytes);
        message = rest;
    }
    Ok(())
}
