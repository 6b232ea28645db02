//! Updates asynchronous replicas in the background, each within its declared bound.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::Result;
use crate::declared::UpdateTime;
use crate::follower::Follow;
use crate::shared::Shared;

impl Follow for Shared {
    fn name(&self) -> &str {
        &self.name
    }

    fn update_asynchronous_replicas(&self) -> Result<()> {
        let (loaded, _) = self.load()?;
        let waits = |replica: usize| loaded.replicas.get(replica).is_some_and(|one| one.when == UpdateTime::OnClose);
        self.update_replicas(&mut |replica| !waits(replica), false)
    }
}

impl Shared {
    /// Schedules updates for the earliest of the given times.
    pub fn schedule_updates(&self, later: Vec<UpdateTime>) {
        self.follower.schedule(self.this.clone(), later);
    }

    /// Resumes the work that earlier processes left unfinished: the store's rules and pending updates.
    pub fn resume_updates(&self) -> Result<()> {
        let (loaded, state) = self.load()?;
        // The process that changed the declaration may have died before it set the rules, so set them once per open.
        // Relaxed: the swap alone lets one caller through. Work of the others needs no rules.
        if !self.rules_checked.swap(true, Ordering::Relaxed)
            && let Err(error) = self.set_rules(&loaded.declared)
        {
            tracing::warn!(dataset = self.name, %error, "its replicas are not stored as it declares");
        }
        if state.current(&loaded).contains(&false) {
            self.follower.wake_by(self.this.clone(), Instant::now());
        }
        Ok(())
    }
}
