//! Pages of the log that were pulled and have pending requests.

use std::collections::HashMap;

use super::origins::SequencesByProducer;
use super::pages::Page;
use crate::entry::{Entry, Position};
use crate::request::Name;

pub struct OpenPage {
    pub page: Page,
    pub came: SequencesByProducer,
    /// Pending requests that were handed out, by destination: the pipeline holds them, or asks for them again. They are handed out before
    /// any later ones.
    pub left: HashMap<Name, LeftRequests>,
    /// The last request to each destination that other nodes deliver to.
    pub others: HashMap<Name, Position>,
}

/// Requests of a page to one destination.
#[derive(Default)]
pub struct LeftRequests {
    count: usize,
    last: Position,
}

impl OpenPage {
    /// Returns whether nothing of the page is pending.
    pub fn is_done(&self) -> bool {
        self.left.is_empty() && self.others.is_empty()
    }

    /// Notes that these requests of the page are handed out, which are in order.
    pub fn hand_out(&mut self, entries: &[Entry]) {
        for entry in entries {
            let left = self.left.entry(entry.request.destination.clone()).or_default();
            left.count += 1;
            left.last = entry.position;
        }
    }

    /// Notes that one of the requests to a destination is done.
    pub fn finish(&mut self, destination: &Name) {
        if let Some(left) = self.left.get_mut(destination) {
            left.count = left.count.saturating_sub(1);
            if left.count == 0 {
                self.left.remove(destination);
            }
        }
    }

    /// Notes that the pipeline holds no requests to a destination, and that another node may deliver them.
    pub fn leave_to_others(&mut self, destination: &Name) {
        if let Some(left) = self.left.remove(destination) {
            self.others.insert(destination.clone(), left.last);
        }
    }
}
