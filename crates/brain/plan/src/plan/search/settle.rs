//! What is settled once: the best so far, and what nothing can be cheaper than.

use super::super::joint::sharpen;
use super::super::layout::lay_out_along;
use super::super::scheme::Cost;
use super::{Run, Search};

impl Run<'_> {
    /// Settles replica 0 first, then the others.
    pub(super) fn alone(&mut self) {
        let laid = self.best;
        self.alone = true;
        self.place(0, 0);
        if let Some(Cost { first, .. }) = self.best {
            let then = laid.filter(|laid| laid.first == first).map_or(u64::MAX, |laid| laid.then);
            let then_floor = if then == u64::MAX { 0.0 } else { self.floor.1 };
            self.floor = (self.floor.0.max(first as f64), then_floor);
            self.begin(Some(Cost { first, then }));
            self.place(0, 0);
        }
        if self.best.is_none_or(|best| best.then == u64::MAX) {
            self.begin(laid);
            self.place(0, 0);
        }
    }

    /// Raises the floor by what the replicas take from each other, and looks for a scheme that is as cheap.
    pub(super) fn sharpen(&mut self) {
        let Some(Cost { first, .. }) = self.best else { return };
        if self.goal.is_async || self.goal.replicas == 1 || self.goal.budget < u64::MAX {
            return;
        }
        let least = sharpen(&self.goal, self.work, first as f64);
        self.floor.0 = self.floor.0.max(least);
        if !self.work.held.is_empty() {
            return;
        }
        if let Some(laid) = lay_out_along(&self.goal, self.work, Cost { first, then: 0 }) {
            self.best = Some(laid);
        }
    }

    /// Starts again, knowing what is to be beaten.
    fn begin(&mut self, best: Option<Cost>) {
        self.best = best;
        (self.alone, self.done, self.count) = (false, false, 0);
    }

    /// The scheme is complete: it is the best so far, or it would have been left out.
    pub(super) fn keep(&mut self) {
        if self.best.is_some_and(|best| best <= self.cost) {
            return;
        }
        self.best = Some(self.cost);
        if self.alone {
            let floor = (self.floor.0, 0.0);
            self.done |= !self.improves(floor);
            return;
        }
        let Search { best, current, .. } = &mut *self.work;
        for (best, current) in best.iter_mut().zip(current) {
            best.clone_from(current);
        }
        self.done |= !self.improves(self.floor);
    }
}
