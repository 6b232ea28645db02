//! The work between a program's pause and its continuation.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mpi::ffi;
use terrace_dump::flags::RunFlags;
use terrace_dump::transport::World;
use terrace_dump::{Dumped, Error, Result};
use terrace_dump_mpi::{MpiWorld, log};

use crate::schedule::CheckpointSchedule;
use crate::stack::Paused;
use crate::{checkpoint, handles, restart, settings};

/// The ranks and the calls so far.
#[derive(Default)]
pub struct DumpHost {
    /// Made at the first call, at which all ranks are.
    world: Option<MpiWorld>,
    schedule: CheckpointSchedule,
}

impl DumpHost {
    /// Makes a checkpoint of the paused program if it is time, or replaces the program by its checkpoint if it has just begun and the user
    /// wants that. Returns the registers to continue with. Collective.
    pub fn serve(&mut self, paused: Paused) -> Paused {
        let Some(settings) = settings::get() else { return paused };
        let bug = |_| Err(Error::Refused("a panic; this is a bug of Terrace".into()));
        handles::note_host(true);
        match catch_unwind(AssertUnwindSafe(|| self.work(settings, paused))).unwrap_or_else(bug) {
            Ok(next) => {
                handles::note_host(false);
                handles::note_first_call();
                next
            }
            Err(error) => {
                eprintln!("terrace dump run: {error}");
                // SAFETY: MPI is initialized, since the program is in a collective call. It ends the job.
                unsafe { ffi::PMPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
                std::process::exit(1)
            }
        }
    }

    fn work(&mut self, settings: &RunFlags, paused: Paused) -> Result<Paused> {
        if let Some(world) = &self.world {
            dump_if_due(world, &mut self.schedule, settings, paused)?;
            return Ok(paused);
        }
        log::begin("terrace=warn");
        let world = self.world.insert(MpiWorld::of_all()?);
        settings.terms().agree(world)?;
        if settings.restart
            && let Some(next) = restart_if_there(world, &mut self.schedule, settings)?
        {
            return Ok(next);
        }
        dump_if_due(world, &mut self.schedule, settings, paused)?;
        Ok(paused)
    }
}

/// Replaces the program, if there is a checkpoint. It then is at the call at which that was made.
fn restart_if_there(
    world: &MpiWorld,
    schedule: &mut CheckpointSchedule,
    settings: &RunFlags,
) -> Result<Option<Paused>> {
    match restart::restart(world, &settings.name) {
        Ok(restarted) => {
            schedule.continue_after(restarted.calls);
            if world.rank() == 0 {
                let (name, version, calls) = (&settings.name, restarted.version, restarted.calls);
                eprintln!("terrace dump run: {name} continues from version {version}, at call {calls}");
            }
            Ok(Some(restarted.paused))
        }
        Err(error @ Error::NotFound { .. }) => {
            if world.rank() == 0 {
                eprintln!("terrace dump run: the program begins: {error}");
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Makes a checkpoint, if it is time. Without success, the program continues: earlier checkpoints are still there.
fn dump_if_due(world: &MpiWorld, schedule: &mut CheckpointSchedule, settings: &RunFlags, paused: Paused) -> Result<()> {
    if !schedule.arrive(world, settings)? {
        return Ok(());
    }
    match checkpoint::make(world, &settings.name, paused, schedule.calls(), &settings.options()) {
        Ok(dumped) => log_sizes(world, settings, schedule, &dumped)?,
        Err(error) if error.is_transport() => return Err(error),
        Err(error) => tracing::warn!("the program continues without a checkpoint of {:?}: {error}", settings.name),
    }
    schedule.begin_interval();
    Ok(())
}

/// Logs the sizes of all ranks together.
fn log_sizes(world: &MpiWorld, settings: &RunFlags, schedule: &CheckpointSchedule, dumped: &Dumped) -> Result<()> {
    let mine: Vec<u8> =
        [dumped.bytes, dumped.distinct, dumped.stored].iter().flat_map(|figure| figure.to_le_bytes()).collect();
    let all = world.all_gather(&mine)?;
    let sum = |figure: usize| -> u64 {
        let of = |said: &Vec<u8>| said.as_chunks().0.get(figure).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        all.iter().map(of).sum()
    };
    if world.rank() == 0 {
        tracing::info!(
            "{} version {} at call {}: {} bytes of {} ranks; {} distinct in their rank, {} stored",
            settings.name,
            dumped.version,
            schedule.calls(),
            sum(0),
            world.size(),
            sum(1),
            sum(2)
        );
    }
    Ok(())
}
