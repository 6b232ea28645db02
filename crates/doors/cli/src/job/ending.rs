//! The end of a job: what only its hosts have is copied, the catalog is saved, and only then does anything stop.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use terrace::{SavedCatalog, SavedEnd, SharedNode, Store, Unsaved};
use terrace_node::{Node, NodeError, Targets};

use super::config::SHARED_TIER;
use super::folder::SharedFolder;
use super::local::LocalFolder;
use super::meeting::Plan;
use super::record::{JobRecord, Phase, has_copied, note_copied};
use super::saving::{SAVED_FILE, SAVED_FOLDER, Saver, is_first_there, keep_only, read_saved};
use crate::interrupt::say;
use crate::output::{complain, count, note};

const ENDED_FILE: &str = "ended.json";
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A node that has died is away when its lease has ended. The last host waits for longer than that.
const MAX_LEAVING_TIME: Duration = Duration::from_secs(30);

/// How a job has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The number of its plan.
    pub plan: u64,
    /// The objects that the next job will not have whole.
    #[serde(rename = "unsafe")]
    pub unsaved: Vec<Unsaved>,
    /// Why the next job goes on from an older catalog, if it does: then all that was changed later is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Ended {
    /// Reads how the job with this plan has ended. None if it has not.
    pub fn read(folder: &SharedFolder, plan: u64) -> Result<Option<Ended>> {
        let ended: Option<Ended> = folder.read(ENDED_FILE)?;
        Ok(ended.filter(|ended| ended.plan == plan))
    }

    /// Returns whether the next job has all.
    pub fn is_safe(&self) -> bool {
        self.unsaved.is_empty() && self.failure.is_none()
    }

    /// Returns the words for people.
    pub fn describe(&self) -> String {
        let objects = match self.unsaved.len() as u64 {
            0 => "all objects are saved".to_owned(),
            number => format!("{} not saved:{}", count(number, "object"), list(&self.unsaved)),
        };
        match &self.failure {
            Some(failure) => format!(
                "the catalog is not saved: {failure}; make room before the next job, which goes on from the catalog before, without what was \
                 changed, renamed or removed since\n{objects}"
            ),
            None => objects,
        }
    }
}

/// Returns a line for each object.
pub fn list(objects: &[Unsaved]) -> String {
    objects.iter().map(|Unsaved { key, bytes }| format!("\n  {key}  {}", count(*bytes, "byte"))).collect()
}

/// This host's part of a job that ends.
pub struct Ending<'a> {
    pub host: &'a str,
    pub plan: &'a Plan,
    pub folder: &'a SharedFolder,
    pub local: &'a LocalFolder,
    pub saver: &'a mut Saver,
    /// How long it waits for other hosts.
    pub patience: Duration,
}

impl Ending<'_> {
    /// Saves the store together with the other hosts, and leaves it. One of them reports to all.
    pub fn run(&mut self, store: Store, node: Node, targets: Targets, seconds: Option<u64>) -> Result<Ended> {
        say("the job ends: what only its hosts have is copied to the shared tier");
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        self.save_before_copies(&store)?;
        self.copy(&store, Some(self.host), until)?;
        note_copied(&store, self.plan.id, self.host)?;
        let is_last = self.wait_to_leave(&store)?;
        if is_last {
            self.wait_for_copies(&store, until)?;
            // What a host has left because its time was over, or because it has died.
            self.copy(&store, None, until)?;
            JobRecord::advance(&store, Phase::Leaves, None)?;
            self.wait_for_leaves(&store)?;
        }
        drop(store);
        let done = node.end();
        // The node leaves the log with its last user, which makes the numbers of new segments.
        targets.end();
        if is_last {
            return self.report(done);
        }
        if let Err(error) = done {
            complain_of(&error);
        }
        self.wait_for_report()
    }

    /// Saves the catalog as it is when the job ends, or waits until the first host has done so. Copies may take all room; the catalog of the
    /// next job is by then at least as new as this one.
    fn save_before_copies(&mut self, store: &Store) -> Result<()> {
        while JobRecord::read(store)?.is_some_and(|record| record.phase < Phase::Copies) {
            if is_first_there(store, self.plan, self.host)? {
                self.saver.save_now(store, self.folder);
                return JobRecord::advance(store, Phase::Copies, None);
            }
            self.rest()?;
        }
        Ok(())
    }

    /// Copies what is only on a host's disk, or what is left on any. The catalog is saved meanwhile, so that a job that is killed in the
    /// middle has what is copied by then.
    fn copy(&mut self, store: &Store, host: Option<&str>, until: Option<Instant>) -> Result<()> {
        thread::scope(|scope| {
            let copying = scope.spawn(|| store.save_to(SHARED_TIER, host, until));
            while !copying.is_finished() {
                self.rest_with(store)?;
            }
            let copied = copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // The report names what was not copied.
            if let Err(error) = copied {
                complain(&format!("not all could be copied to the shared tier: {error}"));
            }
            Ok(())
        })
    }

    fn wait_for_copies(&mut self, store: &Store, until: Option<Instant>) -> Result<()> {
        loop {
            let mut all_have = true;
            for node in store.nodes()?.iter().filter(|node| node.is_there) {
                all_have &= has_copied(store, self.plan.id, &node.name)?;
            }
            if all_have || until.is_some_and(|until| Instant::now() > until) {
                return Ok(());
            }
            self.rest_with(store)?;
        }
    }

    fn wait_for_leaves(&mut self, store: &Store) -> Result<()> {
        let until = Instant::now() + MAX_LEAVING_TIME;
        loop {
            let nodes = store.nodes()?.into_iter().filter(|node| node.is_there && node.name != self.host);
            let names: Vec<String> = nodes.map(|node| node.name).collect();
            if names.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                note(&format!(
                    "these nodes have not left the store: {}; what they change from now on is lost",
                    names.join(", ")
                ));
                return Ok(());
            }
            self.rest_with(store)?;
        }
    }

    /// Waits until this host leaves the store. Returns true if it is the last one, because those before it have died.
    fn wait_to_leave(&mut self, store: &Store) -> Result<bool> {
        loop {
            if JobRecord::read(store)?.is_some_and(|record| record.phase == Phase::Leaves) {
                return Ok(false);
            }
            if is_first_there(store, self.plan, self.host)? {
                return Ok(true);
            }
            self.rest_with(store)?;
        }
    }

    /// Saves the catalog, which nobody changes any more, and tells the other hosts.
    fn report(&self, ended: Result<(), NodeError>) -> Result<Ended> {
        let (place, before) = (self.folder.path(SAVED_FOLDER), read_saved(self.folder)?);
        let name =
            |catalog: &SavedCatalog| self.folder.write(SAVED_FILE, catalog).map_err(|error| format!("{error:#}"));
        let SavedEnd { failure, unsaved } = SharedNode::save_ended(&self.local.store(), &place, &before, name)?;
        // They take room that the report needs, and are of no other use.
        if let Err(error) = keep_only(self.folder, &read_saved(self.folder)?) {
            complain(&format!("{error:#}"));
        }
        match ended {
            // A host that has died may have had bytes that it had not synced. What was nowhere else is named.
            Err(error) if !unsaved.is_empty() => complain_of(&error),
            ended => ended?,
        }
        let ended = Ended { plan: self.plan.id, unsaved, failure };
        let written = self.folder.write(ENDED_FILE, &ended);
        // Nobody else can tell it then.
        written
            .with_context(|| format!("the job has ended, and this cannot be told to others: {}", ended.describe()))?;
        Ok(ended)
    }

    fn wait_for_report(&mut self) -> Result<Ended> {
        let until = Instant::now() + self.patience;
        loop {
            if let Some(ended) = Ended::read(self.folder, self.plan.id)? {
                return Ok(ended);
            }
            if Instant::now() > until {
                bail!("the last host has not saved the catalog in time; see what `terrace cluster up` says there");
            }
            self.rest()?;
        }
    }

    fn rest_with(&mut self, store: &Store) -> Result<()> {
        self.saver.work(store, self.folder, self.plan, self.host);
        self.rest()
    }

    fn rest(&mut self) -> Result<()> {
        thread::sleep(POLL_INTERVAL);
        Ok(())
    }
}

fn complain_of(error: &NodeError) {
    complain(&format!("the node of this host has not ended as it should: {error}"));
}

/// From now on, only Ctrl-C ends this process at once: schedulers send SIGTERM more than once.
pub fn end_at_once_on_interrupt(mut signals: Signals) {
    thread::spawn(move || {
        if signals.forever().any(|signal| signal == SIGINT) {
            std::process::exit(128 + SIGINT);
        }
    });
}
