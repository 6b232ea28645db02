//! The places that outlive the nodes: where versions flow to, and where a restart looks.

use std::time::Instant;

use terrace::Store;
use terrace_dump::archive::{Archive, newest_version};
use terrace_dump::flags::RunFlags;
use terrace_dump::transport::{World, agree};
use terrace_dump::{Options, Result, flow};
use terrace_dump_mpi::{MpiWorld, open_store};

use crate::settings;

/// The levels behind the nodes' stores.
pub struct Levels {
    /// Where versions flow to.
    flows_to: Option<Archive>,
    /// Where a restart looks.
    pub restarts_from: Option<Archive>,
    /// The newest version where versions flow to, or the one from which the program has continued. Those that it makes follow it, also in
    /// new stores.
    pub newest: Option<u32>,
}

impl Levels {
    /// Opens the places. Collective.
    ///
    /// # Errors
    /// If a version could not flow: an invalid address, or a place that cannot be read. So the user learns it at the start, not at the first
    /// checkpoint. With --restart, also if a place does not exist: of one that is not mounted, the program would begin again, and its versions would
    /// fill the disk below. Without --restart, the place of --flow-to may be made by the first flow.
    pub fn open(world: &MpiWorld, settings: &RunFlags) -> Result<Levels> {
        let (flow_to, from) = (settings.flow_to.as_deref(), settings.from().filter(|_| settings.restart));
        let mut levels = Levels { flows_to: None, restarts_from: None, newest: None };
        // The ranks have compared both.
        if flow_to.is_none() && from.is_none() {
            return Ok(levels);
        }
        let store = open_store(world, &agree(world, settings::store())?)?;
        let open = |address: Option<&str>| {
            agree(world, address.map(|address| Archive::open(&store, address, &settings.service_options)).transpose())
        };
        (levels.flows_to, levels.restarts_from) = (open(flow_to)?, open(from)?);
        let places = levels.restarts_from.iter().chain(&levels.flows_to).filter(|_| settings.restart);
        agree(world, { places }.try_for_each(Archive::check_exists))?;
        levels.newest = newest_version(world, levels.flows_to.as_ref(), &settings.name)?;
        Ok(levels)
    }

    /// Lets a version flow, if the user wants that. Collective.
    pub fn take(&self, world: &MpiWorld, store: &Store, settings: &RunFlags, version: u32) -> Result<()> {
        let Some(archive) = &self.flows_to else { return Ok(()) };
        let (window, began) = (Options::default().window, Instant::now());
        let flowed = flow(world, store, &settings.name, Some(version), archive, settings.flow_keep, window)?;
        if world.rank() == 0 {
            let (name, sent, packs, bytes) = (&settings.name, flowed.sent, flowed.packs, flowed.bytes);
            let seconds = began.elapsed().as_secs_f64();
            tracing::info!(
                "{name} version {version}: {sent} of {packs} packs sent to {archive}, {bytes} bytes; {seconds:.3} s"
            );
        }
        Ok(())
    }
}
