//! A world of threads in one process: for programs of one rank, for tests and simulations. Ranks can be made to die.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix_futex_sync::{Condvar, Mutex};

use super::{Window, World};
use crate::{Error, Result};

/// A builder of worlds of threads.
///
/// ```
/// use terrace_dump::transport::{World, threads::Threads};
///
/// let sums = Threads::on(&[0, 0, 1]).run(|world| {
///     let all = world.all_gather(&[world.rank() as u8])?;
///     Ok::<_, terrace_dump::Error>(all.concat().iter().sum::<u8>())
/// });
/// assert!(sums.into_iter().all(|sum| matches!(sum, Ok(3))));
/// ```
#[derive(Clone)]
pub struct Threads {
    nodes: Arc<[u32]>,
    deaths: HashMap<u32, u64>,
}

impl Threads {
    /// Creates one rank for each entry of `nodes`, on that node.
    pub fn on(nodes: &[u32]) -> Threads {
        Threads { nodes: nodes.into(), deaths: HashMap::new() }
    }

    /// Makes a rank die: its call number `call` (from 0) and all later ones fail.
    pub fn kill(mut self, rank: u32, call: u64) -> Threads {
        self.deaths.insert(rank, call);
        self
    }

    /// Runs `work` on each rank, each in its own thread, and returns the results in order of ranks.
    pub fn run<T: Send>(&self, work: impl Fn(&ThreadWorld) -> T + Sync) -> Vec<T> {
        let size = self.nodes.len();
        let meeting = Meeting { round: 0, arrived: vec![None; size], met: Arc::default() };
        let state = State { meeting, letters: HashMap::new(), gone: vec![false; size] };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let work = &work;
        thread::scope(|scope| {
            let run = |rank| {
                let world = ThreadWorld {
                    rank,
                    nodes: self.nodes.clone(),
                    shared: shared.clone(),
                    left: AtomicU64::new(self.deaths.get(&rank).copied().unwrap_or(u64::MAX)),
                };
                scope.spawn(move || work(&world))
            };
            let running: Vec<_> = (0..size as u32).map(run).collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}

/// One rank of a world of threads. When it is dropped, calls of other ranks that need it fail.
pub struct ThreadWorld {
    rank: u32,
    nodes: Arc<[u32]>,
    shared: Arc<Shared>,
    /// The number of calls until the rank dies. Relaxed: a mere count, and no data depends on it.
    left: AtomicU64,
}

struct Shared {
    /// The only lock of the world. Held for a look or a change, and released during waits. Each change is signalled.
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    meeting: Meeting,
    letters: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
    gone: Vec<bool>,
}

/// A collective call, in which all ranks exchange contributions. It is reused for every round.
struct Meeting {
    round: u64,
    arrived: Vec<Option<Brought>>,
    met: Arc<Vec<Brought>>,
}

/// A rank's contribution to a collective call.
#[derive(Clone)]
enum Brought {
    Bytes(Arc<[u8]>),
    Memory(Memory),
}

/// A rank's window. Locked for one copy: `fence` separates puts from reads, so the order of puts between two fences is free.
type Memory = Arc<Mutex<Vec<u8>>>;

impl ThreadWorld {
    fn call(&self) -> Result<()> {
        // At 0 it stays 0: this call and all later ones fail.
        let alive = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if alive {
            return Ok(());
        }
        self.leave();
        Err(Error::Died { rank: self.rank })
    }

    fn leave(&self) {
        // Under the lock: otherwise a rank that has looked at `gone` and does not wait yet would miss the signal.
        self.shared.state.lock().gone[self.rank as usize] = true;
        self.shared.changed.notify_all();
    }

    fn meet(&self, brought: Brought) -> Result<Arc<Vec<Brought>>> {
        self.call()?;
        // Released while it waits for the other ranks.
        let mut state = self.shared.state.lock();
        let round = state.meeting.round;
        state.meeting.arrived[self.rank as usize] = Some(brought);
        if state.meeting.arrived.iter().all(Option::is_some) {
            let met = state.meeting.arrived.iter_mut().filter_map(Option::take).collect();
            state.meeting.met = Arc::new(met);
            state.meeting.round += 1;
            self.shared.changed.notify_all();
        }
        while state.meeting.round == round {
            if let Some(rank) = state.gone.iter().position(|gone| *gone) {
                return Err(Error::Died { rank: rank as u32 });
            }
            state = self.shared.changed.wait(state);
        }
        // The outcome of this round is still there: the next round cannot end without this rank.
        Ok(state.meeting.met.clone())
    }
}

impl Drop for ThreadWorld {
    fn drop(&mut self) {
        self.leave();
    }
}

impl World for ThreadWorld {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let met = self.meet(Brought::Bytes(mine.into()))?;
        let bytes = |brought: &Brought| match brought {
            Brought::Bytes(bytes) => Ok(bytes.to_vec()),
            Brought::Memory(_) => Err(out_of_step()),
        };
        met.iter().map(bytes).collect()
    }

    fn most(&self, mine: u64) -> Result<u64> {
        let number = |said: &Vec<u8>| said.as_chunks().0.first().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Ok(self.all_gather(&mine.to_le_bytes())?.iter().map(number).max().unwrap_or(mine))
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<()> {
        self.call()?;
        // Letters of a pair of ranks stay in order: each pair has its own queue.
        self.shared.state.lock().letters.entry((self.rank, to)).or_default().push_back(bytes.to_vec());
        self.shared.changed.notify_all();
        Ok(())
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>> {
        self.call()?;
        let mut state = self.shared.state.lock(); // released while it waits
        loop {
            if let Some(letter) = state.letters.get_mut(&(from, self.rank)).and_then(VecDeque::pop_front) {
                return Ok(letter);
            }
            if state.gone[from as usize] {
                return Err(Error::Died { rank: from });
            }
            state = self.shared.changed.wait(state);
        }
    }

    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>> {
        let met = self.meet(Brought::Memory(Arc::new(Mutex::new(vec![0; bytes]))))?;
        let memory = |brought: &Brought| match brought {
            Brought::Memory(memory) => Ok(memory.clone()),
            Brought::Bytes(_) => Err(out_of_step()),
        };
        let memories = met.iter().map(memory).collect::<Result<_>>()?;
        Ok(Box::new(ThreadWindow { world: self, memories }))
    }
}

struct ThreadWindow<'a> {
    world: &'a ThreadWorld,
    memories: Vec<Memory>,
}

impl<'b> Window<'b> for ThreadWindow<'b> {
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()> {
        self.world.call()?;
        let mut memory = self.memories[to as usize].lock(); // see `Memory`
        match memory.get_mut(offset..offset + bytes.len()) {
            Some(place) => place.copy_from_slice(bytes),
            None => {
                let reason = format!("{} bytes at {offset} do not fit the window of rank {to}", bytes.len());
                return Err(Error::Transport { what: "putting", reason });
            }
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<()> {
        self.world.barrier()
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8])) {
        // Held while `sink` runs. After a fence nobody puts until the next one, so nobody waits for it.
        sink(&self.memories[self.world.rank as usize].lock());
    }
}

fn out_of_step() -> Error {
    Error::Transport { what: "meeting the other ranks", reason: "they are in a different collective call".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_of_a_death_get_an_error_wherever_they_are() {
        for call in 0..6 {
            let done = Threads::on(&[0, 1, 2]).kill(1, call).run(|world| {
                world.barrier()?;
                let mut window = world.window(8)?;
                window.put((world.rank() + 1) % 3, 0, b"8 bytes!")?;
                window.fence()?;
                world.send((world.rank() + 1) % 3, b"on")?;
                world.receive((world.rank() + 2) % 3)?;
                world.barrier()
            });
            let told = |done: &Result<()>| matches!(done, Err(Error::Died { .. }));
            assert!(told(&done[1]), "call {call}");
            assert!(done.iter().all(told), "call {call}: {done:?}");
        }
    }

    #[test]
    fn puts_are_complete_after_the_fence() {
        let read = Threads::on(&[0, 0, 0, 0]).run(|world| {
            let mine = [world.rank() as u8 + 1];
            let mut window = world.window(4)?;
            for to in 0..4 {
                window.put(to, world.rank() as usize, &mine)?;
            }
            window.fence()?;
            let mut read = Vec::new();
            window.read(&mut |bytes| read.extend_from_slice(bytes));
            Ok::<_, Error>(read)
        });
        assert!(read.into_iter().all(|read| read.expect("meets") == [1, 2, 3, 4]));
    }
}
