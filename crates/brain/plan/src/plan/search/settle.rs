//! The best scheme so far, and the lower bound of all schemes.

use super::super::layout::improve_along_joint_bound;
use super::super::scheme::Cost;
use super::super::sharpen::sharpen_joint_bound;
use super::{Run, Search};

impl Run<'_> {
    /// Minimises the cost of replica 0 first, then the cost of the others.
    pub(super) fn minimize_first_replica_then_rest(&mut self) {
        let laid = self.best;
        self.first_replica_only = true;
        self.place(0, 0);
        if let Some(Cost { first, .. }) = self.best {
            let then = laid.filter(|laid| laid.first == first).map_or(u64::MAX, |laid| laid.then);
            let then_floor = if then == u64::MAX { 0.0 } else { self.floor.1 };
            self.floor = (self.floor.0.max(first as f64), then_floor);
            self.restart(Some(Cost { first, then }));
            self.place(0, 0);
        }
        if self.best.is_none_or(|best| best.then == u64::MAX) {
            self.restart(laid);
            self.place(0, 0);
        }
    }

    /// Raises the lower bound by the space that the replicas take from each other, and lays out a scheme along the
    /// sharper bound.
    pub(super) fn sharpen_floor(&mut self) {
        let Some(Cost { first, .. }) = self.best else { return };
        if self.goal.is_async || self.goal.replicas == 1 || self.goal.budget < u64::MAX {
            return;
        }
        let least = sharpen_joint_bound(&self.goal, self.work, first as f64);
        self.floor.0 = self.floor.0.max(least);
        if !self.work.held.is_empty() {
            return;
        }
        if let Some(laid) = improve_along_joint_bound(&self.goal, self.work, Cost { first, then: 0 }) {
            self.best = Some(laid);
        }
    }

    /// Restarts the search with the cost to improve on.
    fn restart(&mut self, best: Option<Cost>) {
        self.best = best;
        (self.first_replica_only, self.done, self.count) = (false, false, 0);
    }

    /// Keeps the complete scheme if it is cheaper than the best one.
    pub(super) fn keep_if_cheaper(&mut self) {
        if self.best.is_some_and(|best| best <= self.cost) {
            return;
        }
        self.best = Some(self.cost);
        if self.first_replica_only {
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
