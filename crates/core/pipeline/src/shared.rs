//! The state that all stages share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use rustix_futex_sync::Mutex;

use crate::dispatcher::Dispatcher;
use crate::memory::Memory;
use crate::{DestinationOf, Figures, Move, Settings};

/// The events that grouping receives.
pub enum Event<M: Move> {
    /// Moves were pulled.
    Moves { source: usize, moves: Vec<M> },
    /// From here on, all moves of a source to a destination are pulled again; earlier ones are void.
    Again { source: usize, destination: DestinationOf<M>, epoch: u64 },
    /// A worker is free.
    Free,
    /// Memory is short.
    Short,
}

/// The state of a run.
pub struct Shared<'a, M: Move> {
    pub settings: &'a Settings,
    pub figures: &'a Figures,
    pub memory: Memory<'a>,
    pub dispatch: Dispatcher<'a, M>,
    /// Set with `Release` and read with `Acquire`: a stage that sees it also sees what happened before. One that sees it late is woken by the
    /// end of `dispatch`, or only does work that is void.
    stopped: AtomicBool,
    /// The channel to grouping; present as long as there is a collector.
    grouping: Mutex<Option<SyncSender<Event<M>>>>,
}

impl<'a, M: Move> Shared<'a, M> {
    pub fn new(settings: &'a Settings, figures: &'a Figures, sources: usize, grouping: SyncSender<Event<M>>) -> Self {
        Shared {
            settings,
            figures,
            memory: Memory::new(settings.memory, figures),
            dispatch: Dispatcher::new(settings, sources),
            stopped: AtomicBool::new(false),
            grouping: Mutex::new(Some(grouping)),
        }
    }

    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Makes all stages end as soon as possible; no more segments are written.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.dispatch.end();
    }

    /// Closes the channel to grouping, so that grouping ends: all collectors have.
    pub fn forget_grouping(&self) {
        self.grouping.lock().take();
    }

    pub fn notify_worker_free(&self) {
        if let Some(grouping) = &*self.grouping.lock() {
            // An error is ignored: if the channel is full, grouping checks for free workers when it handles the queued
            // events.
            let _ = grouping.try_send(Event::Free);
        }
    }
}
