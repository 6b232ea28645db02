//! A lower bound of the cost of the pages that are not placed yet.
//!
//! If pieces had no fixed cost, their number no limit, and pages could be divided, each target would hold pages at a price
//! that rises in steps: first in its cheapest encoding until it is full, then page by page in the next denser encoding
//! until all pages are. Each failure domain holds a page once. The cheapest way to place a number of pages is then to
//! buy steps in the order of their price.

use super::candidates::Candidate;
use super::held::Held;
use crate::snapshot::{MAX_SEARCHED_TARGETS, PAGE_BYTES};

/// A step of a target's price.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The price of each additional page.
    price: f64,
    target: u8,
    domain: u8,
    /// The number of additional pages that a free byte holds.
    pages_per_byte: f64,
    /// Stored bytes of a page after the step, and before it. Both are equal at a target's first step.
    stored: (u32, u32),
    /// The bytes of the pages that stay on the target; they need no free space.
    staying: u64,
    /// Whether the pages after the step, and before it, belong to replica 0.
    first: (bool, bool),
}

/// The stored bytes and the price of a page in one encoding on one target.
#[derive(Clone, Copy, Debug)]
struct Point {
    target: u8,
    domain: u8,
    stored: f64,
    price: f64,
    first: bool,
}

/// A number of pages on a target, each stored in `stored` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub target: u8,
    pub domain: u8,
    pub stored: u32,
    pub pages: u32,
    /// Whether the pages belong to the first class of the bound.
    pub first: bool,
}

/// The price steps of one or two classes of replicas, cheapest first.
#[derive(Debug, Default)]
pub(super) struct Bound {
    steps: Vec<Step>,
    points: Vec<Point>,
    /// The additional price of a stored byte: the Lagrange multiplier of the budget.
    byte_price: f64,
}

/// Returns the least price of a page, including its share of the fixed cost of a piece as long as the request.
pub(super) fn bound_page_price(candidate: &Candidate, pages: u32) -> f64 {
    let (fixed, per_page) = candidate.least_prices();
    per_page as f64 + fixed as f64 / f64::from(pages)
}

impl Bound {
    /// Builds the steps of the candidates of one or two classes; the number with each class is subtracted from the
    /// price of its pages.
    pub fn build(&mut self, classes: &[(&[Candidate], f64)], held: &[Held], pages: u32, byte_price: f64) {
        self.byte_price = byte_price;
        self.steps.clear();
        self.points.clear();
        for (&(list, less), first) in classes.iter().zip([true, false]) {
            self.points.extend(list.iter().map(|c| {
                let (stored, price) = (f64::from(c.stored), bound_page_price(c, pages) - less);
                Point { target: c.target, domain: c.domain, stored, price: price + byte_price * stored, first }
            }));
        }
        self.points.sort_unstable_by(|a, b| {
            a.target.cmp(&b.target).then(a.price.total_cmp(&b.price)).then(a.stored.total_cmp(&b.stored))
        });
        for group in self.points.chunk_by(|a, b| a.target == b.target) {
            let (target, domain) = (group[0].target, group[0].domain);
            let of_target = |held: &&Held| held.target == target;
            let all = held.iter().filter(of_target).map(|held| u64::from(held.end - held.start) * PAGE_BYTES);
            let (staying, mut last) = (all.sum(), group[0]);
            let step = |price, pages_per_byte, next: Point, last: Point| {
                let (stored, first) = ((next.stored as u32, last.stored as u32), (next.first, last.first));
                Step { price, target, domain, pages_per_byte, stored, staying, first }
            };
            self.steps.push(step(last.price, 1.0 / last.stored, last, last));
            while let Some(next) = find_next_denser(group, last) {
                let price = (next.price * last.stored - last.price * next.stored) / (last.stored - next.stored);
                self.steps.push(step(price, 1.0 / next.stored - 1.0 / last.stored, next, last));
                last = next;
            }
        }
        self.steps.sort_unstable_by(|a, b| a.price.total_cmp(&b.price).then(b.stored.0.cmp(&a.stored.0)));
    }

    /// Buys `pages` pages in the order of price, and calls `each` with every step and the pages bought from it. Returns
    /// the number of pages without room. Domains that `one` maps to the same index share the capacity of that index.
    fn buy_pages(
        &self,
        pages: u64,
        free: &[u64],
        domains: &[u32],
        one: impl Fn(u8) -> u8,
        mut each: impl FnMut(&Step, f64),
    ) -> f64 {
        let mut left = pages as f64;
        let mut used = [0.0; MAX_SEARCHED_TARGETS];
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

    /// Returns the least cost of `pages` pages minus the price of `bytes` stored bytes, for the given free bytes of
    /// targets and free pages of domains. Infinite if the pages do not fit.
    pub fn least(&self, pages: u64, free: &[u64], domains: &[u32], bytes: u64) -> f64 {
        self.least_of(pages, free, domains, bytes, |domain| domain)
    }

    /// Like [`Bound::least`], but domains that `one` maps to the same index count as one domain.
    pub fn least_of(&self, pages: u64, free: &[u64], domains: &[u32], bytes: u64, one: impl Fn(u8) -> u8) -> f64 {
        let mut cost = 0.0;
        let left = self.buy_pages(pages, free, domains, one, |step, taken| cost += taken * step.price);
        let spare = if self.byte_price > 0.0 { self.byte_price * bytes as f64 } else { 0.0 };
        if left > 1e-6 { f64::INFINITY } else { cost - spare }
    }

    /// Like [`Bound::least`] without a byte price; also returns the number of bought pages that belong to the first
    /// class.
    pub fn least_and_first(&self, pages: u64, free: &[u64], domains: &[u32]) -> (f64, f64) {
        let (mut cost, mut first) = (0.0, 0.0);
        let left = self.buy_pages(
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
                // These bytes now hold the denser pages instead of the sparser ones.
                let bytes = taken / step.pages_per_byte;
                first += if step.first.0 { bytes / f64::from(step.stored.0) } else { 0.0 };
                first -= if step.first.1 { bytes / f64::from(step.stored.1) } else { 0.0 };
            },
        );
        (if left > 1e-6 { f64::INFINITY } else { cost }, first)
    }

    /// Appends the shares of `pages` pages, in whole pages and in the order of price. Returns false if they do not fit.
    pub fn shares(&self, pages: u64, free: &[u64], domains: &[u32], shares: &mut Vec<Share>) -> bool {
        let mut left = pages;
        let (mut got, mut used) =
            ([(0u64, (0, 0), (false, false), 0); MAX_SEARCHED_TARGETS], [0u64; MAX_SEARCHED_TARGETS]);
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

    /// Collects the byte prices at which two encodings of a target cost the same, in ascending order. The first entry
    /// is 0; at the last one, the densest encodings are the cheapest everywhere.
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

/// Returns the encoding denser than `last` that saves a byte at the least price: the next point on the lower convex
/// hull.
fn find_next_denser(group: &[Point], last: Point) -> Option<Point> {
    let denser = group.iter().filter(|point| point.stored < last.stored);
    let per_byte = |point: &Point| (point.price - last.price) / (last.stored - point.stored);
    let order = |a: &&Point, b: &&Point| per_byte(a).total_cmp(&per_byte(b)).then(a.stored.total_cmp(&b.stored));
    denser.min_by(order).copied()
}
