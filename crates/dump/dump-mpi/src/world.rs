//! MPI as the transport of a dump. If a rank dies, MPI ends the job, so no rank waits for it.

use std::collections::BTreeMap;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::ffi::{self, MPI_Comm};
use mpi::raw::FromRaw;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use terrace::Store;
use terrace_dump::transport::{Window, World, agree};
use terrace_dump::{Error, Result};

use crate::messages::MessageWindow;
use crate::window::{MpiWindow, can_open};

/// Duplicates a communicator of the program, whose messages must not mix with those of a dump. Collective.
#[allow(unsafe_code)]
pub(crate) fn duplicate(comm: MPI_Comm) -> SimpleCommunicator {
    // SAFETY: the caller passes a communicator. Its duplicate belongs to us.
    unsafe {
        let mut own = ffi::RSMPI_COMM_NULL;
        ffi::MPI_Comm_dup(comm, &mut own);
        SimpleCommunicator::from_raw(own)
    }
}

/// Opens the store of this node. `{node}` in the path stands for TERRACE_NODE, or for the node's number. Collective.
///
/// # Errors
/// All ranks fail if one of them cannot open its store.
pub fn open_store(world: &MpiWorld, path: &str) -> Result<Store> {
    let node = std::env::var("TERRACE_NODE").unwrap_or_else(|_| world.node().to_string());
    let store = match path.is_empty() {
        true => Err(Error::Refused("name this node's store: TERRACE_STORE, or --store of terrace dump".into())),
        false => Store::open(path.replace("{node}", &node).as_ref()).map_err(Into::into),
    };
    agree(world, store)
}

/// The ranks of a private communicator.
pub struct MpiWorld {
    communicator: SimpleCommunicator,
    nodes: Vec<u32>,
    has_threads: bool,
    has_windows: bool,
}

impl MpiWorld {
    /// Makes a world of the ranks of a communicator that nobody else uses. Collective. Two ranks are on
    /// one node if both have the same `TERRACE_NODE` in their environment, or if neither has one and they share memory.
    pub fn over(communicator: SimpleCommunicator) -> Result<MpiWorld> {
        let shared = communicator.split_shared(communicator.rank());
        let mut first = [communicator.rank()];
        mpi::traits::Root::broadcast_into(&shared.process_at_rank(0), &mut first[..]);
        let mut world = MpiWorld { communicator, nodes: Vec::new(), has_threads: false, has_windows: false };
        let name = std::env::var("TERRACE_NODE").unwrap_or_else(|_| format!("\0{}", first[0]));
        let mut numbers: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for name in world.all_gather(name.as_bytes())? {
            let next = numbers.len() as u32;
            world.nodes.push(*numbers.entry(name).or_insert(next));
        }
        let lacks_threads = mpi::environment::threading_support() != Threading::Multiple;
        world.has_threads = world.most(u64::from(lacks_threads))? == 0;
        world.has_windows = !world.has_threads && can_open(&world.communicator);
        Ok(world)
    }

    /// Makes a world of all ranks of the program, which has initialized MPI. Collective.
    pub fn of_all() -> Result<MpiWorld> {
        MpiWorld::over(SimpleCommunicator::world().duplicate())
    }

    /// Returns whether MPI lets several threads of each rank call it.
    pub(crate) fn has_threads(&self) -> bool {
        self.has_threads
    }

    fn process(&self, rank: u32) -> mpi::topology::Process<'_> {
        self.communicator.process_at_rank(rank as i32)
    }
}

impl World for MpiWorld {
    fn rank(&self) -> u32 {
        self.communicator.rank() as u32
    }

    fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u64; self.communicator.size() as usize];
        self.communicator.all_gather_into(&(mine.len() as u64), &mut lengths[..]);
        let total: u64 = lengths.iter().sum();
        if i32::try_from(total).is_err() {
            let reason = format!(
                "all ranks together send {total} bytes, and MPI counts at most 2^31 - 1; use fewer ranks or buffers"
            );
            return Err(Error::Transport { what: "gathering", reason });
        }
        let counts: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
        let before = |sum: &mut i32, count: &i32| {
            let start = *sum;
            *sum += count;
            Some(start)
        };
        let starts: Vec<i32> = counts.iter().scan(0, before).collect();
        if total == 0 {
            return Ok(vec![Vec::new(); counts.len()]);
        }
        let mut all = vec![0; total as usize];
        // OpenMPI mistakes the address of an empty slice, 1, for MPI_IN_PLACE, so send a part of an allocated buffer.
        let mine = [mine, &[0]].concat();
        let mine = &mine[..mine.len() - 1];
        self.communicator
            .all_gather_varcount_into(mine, &mut PartitionMut::new(&mut all[..], &counts[..], &starts[..]));
        let mut rest = &all[..];
        let split = |count: &i32| {
            let (one, after) = rest.split_at(*count as usize);
            rest = after;
            one.to_vec()
        };
        Ok(counts.iter().map(split).collect())
    }

    fn most(&self, mine: u64) -> Result<u64> {
        let mut most = mine;
        self.communicator.all_reduce_into(&mine, &mut most, SystemOperation::max());
        Ok(most)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<()> {
        if i32::try_from(bytes.len()).is_err() {
            let reason = format!("{} bytes are more than MPI counts; use a smaller table", bytes.len());
            return Err(Error::Transport { what: "sending", reason });
        }
        self.process(to).send(bytes);
        Ok(())
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>> {
        Ok(self.process(from).receive_vec().0)
    }

    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>> {
        Ok(match self.has_windows {
            true => Box::new(MpiWindow::open(&self.communicator, bytes)?),
            false => Box::new(MessageWindow::open(&self.communicator, bytes)),
        })
    }
}
