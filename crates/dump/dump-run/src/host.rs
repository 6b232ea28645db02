//! The work between a program's pause and its continuation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mpi::ffi;
use terrace_dump::flags::RunFlags;
use terrace_dump::transport::{World, agree};
use terrace_dump::{Dumped, Error, Options, Result};
use terrace_dump_mpi::{MpiWorld, log, open_store};

use crate::levels::Levels;
use crate::schedule::CheckpointSchedule;
use crate::stack::Paused;
use crate::{checkpoint, handles, outcome, restart, settings};

/// The ranks and the calls so far.
#[derive(Default)]
pub struct DumpHost {
    /// Made at the first call, at which all ranks are.
    ranks: Option<Ranks>,
    schedule: CheckpointSchedule,
}

/// All ranks, and the places of their checkpoints.
struct Ranks {
    world: MpiWorld,
    levels: Levels,
}

impl DumpHost {
    /// Makes a checkpoint of the paused program if it is time, or replaces the program by its checkpoint if it has just begun and the user
    /// wants that. Returns the registers to continue with. Collective.
    pub fn serve(&mut self, paused: Paused) -> Paused {
        let Some(settings) = settings::get() else { return paused };
        outcome::note_call();
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
        if let Some(ranks) = &self.ranks {
            dump_if_due(ranks, &mut self.schedule, settings, paused)?;
            return Ok(paused);
        }
        log::begin("terrace=warn");
        let world = MpiWorld::of_all()?;
        settings.terms().agree(&world)?;
        let levels = Levels::open(&world, settings)?;
        let ranks = self.ranks.insert(Ranks { world, levels });
        if settings.restart
            && let Some(next) = restart_if_there(ranks, &mut self.schedule, settings)?
        {
            return Ok(next);
        }
        dump_if_due(ranks, &mut self.schedule, settings, paused)?;
        Ok(paused)
    }
}

/// Replaces the program, if there is a checkpoint. It then is at the call at which that was made.
fn restart_if_there(
    ranks: &mut Ranks,
    schedule: &mut CheckpointSchedule,
    settings: &RunFlags,
) -> Result<Option<Paused>> {
    let (world, archive, began) = (&ranks.world, ranks.levels.restarts_from.clone(), Instant::now());
    match restart::restart(world, &settings.name, archive.as_ref()) {
        Ok(restarted) => {
            schedule.continue_after(restarted.calls);
            outcome::note_dumped();
            // Otherwise the next version in new stores would be version 0, and older than this one.
            ranks.levels.newest = ranks.levels.newest.max(Some(restarted.version));
            if world.rank() == 0 {
                let (name, version, calls) = (&settings.name, restarted.version, restarted.calls);
                let from = archive.filter(|_| restarted.is_archived).map(|from| format!(" from {from}"));
                let from = from.unwrap_or_default();
                eprintln!("terrace dump run: {name} continues from version {version}{from}, at call {calls}");
                tracing::info!("its memory was restored in {:.3} s", began.elapsed().as_secs_f64());
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
fn dump_if_due(ranks: &Ranks, schedule: &mut CheckpointSchedule, settings: &RunFlags, paused: Paused) -> Result<()> {
    if !schedule.arrive(&ranks.world, settings)? {
        return Ok(());
    }
    outcome::note_dumped();
    match dump_and_flow(ranks, schedule, settings, paused) {
        Err(error) if error.is_transport() => return Err(error),
        Err(error) => tracing::warn!("the program continues without a checkpoint of {:?}: {error}", settings.name),
        Ok(()) => {}
    }
    schedule.begin_interval();
    Ok(())
}

/// Makes a checkpoint in the nodes' stores, and lets it flow from there. If only that fails, the checkpoint exists, and a warning says why.
fn dump_and_flow(ranks: &Ranks, schedule: &CheckpointSchedule, settings: &RunFlags, paused: Paused) -> Result<()> {
    let (Ranks { world, levels }, began) = (ranks, Instant::now());
    let store = open_store(world, &agree(world, settings::store())?)?;
    let options = Options { after: levels.newest, ..settings.options() };
    let dumped = checkpoint::make(world, &store, &settings.name, paused, schedule.calls(), &options)?;
    log_sizes(world, settings, schedule, &dumped, began.elapsed())?;
    match levels.take(world, &store, settings, dumped.version) {
        Err(error) if !error.is_transport() => {
            let (name, version) = (&settings.name, dumped.version);
            tracing::warn!("version {version} of {name:?} is in the nodes' stores, and has not flowed: {error}");
            Ok(())
        }
        done => done,
    }
}

/// Logs the sizes of all ranks together.
fn log_sizes(
    world: &MpiWorld,
    settings: &RunFlags,
    schedule: &CheckpointSchedule,
    dumped: &Dumped,
    stopped: Duration,
) -> Result<()> {
    let mine: Vec<u8> =
        [dumped.bytes, dumped.distinct, dumped.stored].iter().flat_map(|figure| figure.to_le_bytes()).collect();
    let all = world.all_gather(&mine)?;
    let sum = |figure: usize| -> u64 {
        let of = |said: &Vec<u8>| said.as_chunks().0.get(figure).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        all.iter().map(of).sum()
    };
    if world.rank() == 0 {
        tracing::info!(
            "{} version {} at call {}: {} bytes of {} ranks; {} distinct in their rank, {} stored; {:.3} s",
            settings.name,
            dumped.version,
            schedule.calls(),
            sum(0),
            world.size(),
            sum(1),
            sum(2),
            stopped.as_secs_f64()
        );
    }
    Ok(())
}
