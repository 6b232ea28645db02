//! `kind = "memory"`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Capabilities, MemoryTarget, OpenedTarget, TargetFound, TargetKind, TargetOwner, TargetSettings};

/// This process's memory: for tests.
pub struct MemoryKind;

impl TargetKind for MemoryKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities { ends_with_process: true, ..Capabilities::default() }
    }

    fn probe(&self, _: &TargetSettings) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        OpenedTarget::open(Arc::new(MemoryTarget::new(owner.store, settings.capacity, owner.ids.clone())), owner)
    }

    fn find(&self, _: &TargetSettings, _: &TargetOwner) -> io::Result<TargetFound> {
        Ok(TargetFound::Nothing)
    }

    fn remove(&self, _: &TargetSettings, _: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}
