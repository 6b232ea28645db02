//! What a dump needs of the world of ranks that it runs in.

pub mod threads;
pub mod throttle;

use crate::{Error, Result};

/// A world of ranks, as one of them sees it. Each call but [`World::send`] and [`World::receive`] is collective: every rank
/// makes it, in the same order. Where a rank has died, the others' calls fail instead of waiting for ever.
pub trait World {
    /// This rank.
    fn rank(&self) -> u32;

    /// The node that each rank is on, numbered from 0. Ranks of one node share a store, and its fate.
    fn nodes(&self) -> &[u32];

    /// What each rank has to say, in order of ranks.
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Sends to a rank, which receives.
    fn send(&self, to: u32, bytes: &[u8]) -> Result<()>;

    /// What a rank sent to this one, the earliest first.
    fn receive(&self, from: u32) -> Result<Vec<u8>>;

    /// Opens memory of `bytes` bytes on each rank, into which the others put.
    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>>;

    /// The greatest number that any rank has.
    fn most(&self, mine: u64) -> Result<u64>;

    /// Returns once every rank has called it.
    fn barrier(&self) -> Result<()> {
        self.most(0).map(drop)
    }

    /// Number of ranks.
    fn size(&self) -> u32 {
        self.nodes().len() as u32
    }

    /// The node that this rank is on.
    fn node(&self) -> u32 {
        self.nodes()[self.rank() as usize]
    }

    /// Whether this rank is its node's first, which does what is done once for each node.
    fn leads(&self) -> bool {
        self.nodes().iter().position(|node| *node == self.node()) == Some(self.rank() as usize)
    }
}

/// Memory of each rank into which others put, one-sided.
pub trait Window<'b> {
    /// Puts bytes into the memory of rank `to`; they are there once both have called [`Window::fence`]. Until then they may
    /// be read where they are.
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()>;

    /// Collective: returns once all that was put has arrived.
    fn fence(&mut self) -> Result<()>;

    /// Shows what has been put here. Nobody may put meanwhile.
    fn read(&self, sink: &mut dyn FnMut(&[u8]));
}

/// Goes on only if what each rank did by itself went well with all of them; all get the same answer.
///
/// # Errors
/// This rank's own error, or [`Error::Elsewhere`], which says what went wrong with the first rank that failed.
pub fn agree<T>(world: &dyn World, done: Result<T>) -> Result<T> {
    // A transport that failed cannot be used to say so.
    if let Err(error) = &done
        && error.is_transport()
    {
        return done;
    }
    // The first rank that failed has the greatest number.
    let mine = if done.is_err() { u64::from(u32::MAX - world.rank()) } else { 0 };
    let first = world.most(mine)?;
    if first == 0 {
        return done;
    }
    let said = done.as_ref().err().filter(|_| mine == first).map(|error| error.to_string()).unwrap_or_default();
    let reason = String::from_utf8_lossy(&world.all_gather(said.as_bytes())?.concat()).into_owned();
    done.and(Err(Error::Elsewhere { rank: u32::MAX - first as u32, reason }))
}
