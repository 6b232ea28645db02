//! What pages that are still to be placed cost at least.
//!
//! Leave out what makes the problem hard (a piece's fixed cost, whole pages, the number of pieces), and each target
//! holds pages at a price that rises in steps: first in its cheapest encoding, until it is full; then page by page in
//! the next denser one, until all are. Each domain holds a page once. The cheapest way to place so many pages is then
//! to buy steps by price.

use super::candidates::Candidate;
use super::held::Held;
use crate::snapshot::{MAX_TARGETS, PAGE};

/// A step of a target's price.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// For each page more.
    price: f64,
    target: u8,
    domain: u8,
    /// How many pages more a free byte holds.
    pages_per_byte: f64,
    /// Bytes of a page after it, and before it; the same at a target's first.
    stored: (u32, u32),
    /// Bytes that what stays would take, which needs no space.
    staying: u64,
    /// Whether the pages after it, and before it, are replica 0's.
    first: (bool, bool),
}

/// What an encoding on a target stores and costs for each page.
#[derive(Clone, Copy, Debug)]
struct Point {
    target: u8,
    domain: u8,
    stored: f64,
    price: f64,
    first: bool,
}

/// So many pages on a target, each stored in so many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub target: u8,
    pub domain: u8,
    pub stored: u32,
    pub pages: u32,
    /// Of the first of the bound's classes.
    pub first: bool,
}

/// The steps of some replicas, cheapest first.
#[derive(Debug, Default)]
pub(super) struct Bound {
    steps: Vec<Step>,
    points: Vec<Point>,
    /// What a stored byte costs on top: the multiplier by which a budget enters.
    byte_price: f64,
}

/// What a page costs at least, and its share of what a piece costs that is as long as the request.
pub(super) fn price(candidate: &Candidate, pages: u32) -> f64 {
    let (fixed, per_page) = candidate.least();
    per_page as f64 + fixed as f64 / f64::from(pages)
}

impl Bound {
    /// The steps of all candidates of one class or two, each with what its pages count less.
    pub fn build(&mut self, classes: &[(&[Candidate], f64)], held: &[Held], pages: u32, byte_price: f64) {
        self.byte_price = byte_price;
        self.steps.clear();
        self.points.clear();
        for (&(list, less), first) in classes.iter().zip([true, false]) {
            self.points.extend(list.iter().map(|c| {
                let (stored, price) = (f64::from(c.stored), price(c, pages) - less);
                Point { target: c.target, domain: c.domain, stored, price: price + byte_price * stored, first }
            }));
        }
        self.points.sort_unstable_by(|a, b| {
            a.target.cmp(&b.target).then(a.price.total_cmp(&b.price)).then(a.stored.total_cmp(&b.stored))
        });
        for group in self.points.chunk_by(|a, b| a.target == b.target) {
            let (target, domain) = (group[0].target, group[0].domain);
            let of_target = |held: &&Held| held.target == target;
            let all = held.iter().filter(of_target).map(|held| u64::from(held.end - held.start) * PAGE);
            let (staying, mut last) = (all.sum(), group[0]);
            let step = |price, pages_per_byte, next: Point, last: Point| {
                let (stored, first) = ((next.stored as u32, last.stored as u32), (next.first, last.first));
                Step { price, target, domain, pages_per_byte, stored, staying, first }
            };
            self.steps.push(step(last.price, 1.0 / last.stored, last, last));
            while let Some(next) = denser(group, last) {
                let price = (next.price * last.stored - last.price * next.stored) / (last.stored - next.stored);
                self.steps.push(step(price, 1.0 / next.stored - 1.0 / last.stored, next, last));
                last = next;
            }
        }
        self.steps.sort_unstable_by(|a, b| a.price.total_cmp(&b.price).then(b.stored.0.cmp(&a.stored.0)));
    }

    /// Buys so many pages where they are cheapest, calls `each` with every step and what is bought of it; gives how many
    /// have no room. Domains of which `one` gives the same take together what that one can take.
    fn buy(
        &self,
        pages: u64,
        free: &[u64],
        domains: &[u32],
        one: impl Fn(u8) -> u8,
        mut each: impl FnMut(&Step, f64),
    ) -> f64 {
        let mut left = pages as f64;
        let mut used = [0.0; MAX_TARGETS];
        for step in &self.steps {
            if left <= 0.0 {
                break;
            }
            let domain = usize::from(one(step.domain));
            let room = (free[usize::from(step.target)] + step.staying) as f64 * step.pages_per_byte;
            let taken = left.min(room).min(f64::from(domains[domain]) - used[domain]);
            left -= taken;
            used[domain] += taken;
            each(step, taken);
        }
        left
    }

    /// The least that `pages` pages cost more than the price of `bytes` stored bytes, where a target has so many free
    /// bytes and a domain can take so many pages. Infinite where they have no room.
    pub fn least(&self, pages: u64, free: &[u64], domains: &[u32], bytes: u64) -> f64 {
        self.least_of(pages, free, domains, bytes, |domain| domain)
    }

    /// The same where some domains count as one.
    pub fn least_of(&self, pages: u64, free: &[u64], domains: &[u32], bytes: u64, one: impl Fn(u8) -> u8) -> f64 {
        let mut cost = 0.0;
        let left = self.buy(pages, free, domains, one, |step, taken| cost += taken * step.price);
        let spare = if self.byte_price > 0.0 { self.byte_price * bytes as f64 } else { 0.0 };
        if left > 1e-6 { f64::INFINITY } else { cost - spare }
    }

    /// The same where bytes have no price, and how many of the pages are of the first class.
    pub fn least_and_first(&self, pages: u64, free: &[u64], domains: &[u32]) -> (f64, f64) {
        let (mut cost, mut first) = (0.0, 0.0);
        let left = self.buy(
            pages,
            free,
            domains,
            |domain| domain,
            |step, taken| {
                cost += taken * step.price;
                if step.stored.0 == step.stored.1 {
                    first += if step.first.0 { taken } else { 0.0 };
                    return;
                }
                // So many bytes hold the denser pages now, and held the others before.
                let bytes = taken / step.pages_per_byte;
                first += if step.first.0 { bytes / f64::from(step.stored.0) } else { 0.0 };
                first -= if step.first.1 { bytes / f64::from(step.stored.1) } else { 0.0 };
            },
        );
        (if left > 1e-6 { f64::INFINITY } else { cost }, first)
    }

    /// The shares of so many pages in whole pages, each bought where it is cheapest; false where they have no room.
    pub fn shares(&self, pages: u64, free: &[u64], domains: &[u32], shares: &mut Vec<Share>) -> bool {
        let mut left = pages;
        let (mut got, mut used) = ([(0u64, (0, 0), (false, false), 0); MAX_TARGETS], [0u64; MAX_TARGETS]);
        for step in &self.steps {
            let (target, domain) = (usize::from(step.target), usize::from(step.domain));
            let room = (free[target] / u64::from(step.stored.0)).saturating_sub(got[target].0);
            let taken = left.min(room).min(u64::from(domains[domain]) - used[domain]);
            if taken > 0 {
                got[target] = (got[target].0 + taken, step.stored, step.first, step.domain);
                used[domain] += taken;
                left -= taken;
            }
        }
        for (target, (pages, (dense, sparse), first, domain)) in (0u8..).zip(got).filter(|(_, (pages, ..))| *pages > 0)
        {
            let (saved, too_much) =
                (sparse - dense, (pages * u64::from(sparse)).checked_sub(free[usize::from(target)]));
            let dense_pages = match (saved, too_much) {
                (0, _) => pages,
                (_, None) => 0,
                (saved, Some(bytes)) => bytes.div_ceil(saved.into()).min(pages),
            };
            let parts = [(pages - dense_pages, sparse, first.1), (dense_pages, dense, first.0)];
            let parts = parts.into_iter().filter(|(pages, ..)| *pages > 0);
            shares.extend(parts.map(|(pages, stored, first)| Share {
                target,
                domain,
                stored,
                pages: pages as u32,
                first,
            }));
        }
        left == 0
    }

    /// Every byte price at which one encoding becomes worth as much as another of the same target; before them 0, after
    /// them one at which all are as dense as can be.
    pub fn byte_prices(lists: &[Vec<Candidate>; 2], prices: &mut Vec<f64>) {
        prices.clear();
        prices.push(0.0);
        for group in lists.iter().flat_map(|list| list.chunk_by(|a, b| a.target == b.target)) {
            for (a, b) in group.iter().flat_map(|a| group.iter().map(move |b| (a, b))) {
                if a.stored > b.stored && a.per_page < b.per_page {
                    prices.push((b.per_page - a.per_page) as f64 / f64::from(a.stored - b.stored));
                }
            }
        }
        prices.sort_unstable_by(f64::total_cmp);
        prices.dedup();
        prices.push(prices.last().map_or(1.0, |last| 2.0 * last + 1.0));
    }
}

/// Of the encodings denser than `last`, the one that saves a byte for the least: the next on the lower convex hull.
fn denser(group: &[Point], last: Point) -> Option<Point> {
    let denser = group.iter().filter(|point| point.stored < last.stored);
    let per_byte = |point: &Point| (point.price - last.price) / (last.stored - point.stored);
    let order = |a: &&Point, b: &&Point| per_byte(a).total_cmp(&per_byte(b)).then(a.stored.total_cmp(&b.stored));
    denser.min_by(order).copied()
}
