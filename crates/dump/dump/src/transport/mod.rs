//! The communication that a dump needs between its ranks.

pub mod threads;
pub mod throttle;

use crate::{Error, Result};

/// The communicator of a set of ranks, as seen by one of them. Each call but [`World::send`] and [`World::receive`] is
/// collective: every rank makes it, in the same order. If a rank has died, the calls of the others fail instead of
/// waiting forever.
pub trait World {
    /// Returns this rank.
    fn rank(&self) -> u32;

    /// Returns the node of each rank, numbered from 0. Ranks of one node share a store and fail together.
    fn nodes(&self) -> &[u32];

    /// Returns the message of each rank, in order of ranks.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Sends a message to a rank, which must receive it.
    fn send(&self, to: u32, bytes: &[u8]) -> Result<()>;

    /// Receives the next message from a rank, in the order of sending.
    fn receive(&self, from: u32) -> Result<Vec<u8>>;

    /// Opens `bytes` bytes of memory on each rank, into which the other ranks put.
    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>>;

    /// Returns the greatest number of any rank.
    fn most(&self, mine: u64) -> Result<u64>;

    /// Returns once every rank has called it.
    fn barrier(&self) -> Result<()> {
        self.most(0).map(drop)
    }

    /// Returns the number of ranks.
    fn size(&self) -> u32 {
        self.nodes().len() as u32
    }

    /// Returns the node of this rank.
    fn node(&self) -> u32 {
        self.nodes()[self.rank() as usize]
    }

    /// Returns whether this rank is the first of its node. That rank does the work that is done once for each node.
    fn leads(&self) -> bool {
        self.nodes().iter().position(|node| *node == self.node()) == Some(self.rank() as usize)
    }
}

/// Memory of each rank, into which other ranks put one-sidedly.
pub trait Window<'b> {
    /// Puts bytes into the memory of rank `to`. They have arrived once both ranks have called [`Window::fence`]; until
    /// then `bytes` may still be read in place, so they must not change.
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()>;

    /// Waits until all puts have arrived. Collective.
    fn fence(&mut self) -> Result<()>;

    /// Passes the memory of this rank to `sink`. No rank may put into this window meanwhile.
    fn read(&self, sink: &mut dyn FnMut(&[u8]));
}

/// Checks that a local step succeeded on all ranks; all ranks get the same outcome.
///
/// # Errors
/// This rank's own error, or [`Error::Elsewhere`] with the message of the first rank that failed.
pub fn agree<T>(world: &dyn World, done: Result<T>) -> Result<T> {
    // A failed transport cannot report its failure to the other ranks.
    if let Err(error) = &done
        && error.is_transport()
    {
        return done;
    }
    // Negate the order: the first rank that failed has the greatest number.
    let mine = if done.is_err() { u64::from(u32::MAX - world.rank()) } else { 0 };
    let first = world.most(mine)?;
    if first == 0 {
        return done;
    }
    let said = done.as_ref().err().filter(|_| mine == first).map(|error| error.to_string()).unwrap_or_default();
    let reason = String::from_utf8_lossy(&world.all_gather(said.as_bytes())?.concat()).into_owned();
    done.and(Err(Error::Elsewhere { rank: u32::MAX - first as u32, reason }))
}
