//! Chooses the stored leaf that serves each leaf of a view.

use super::plan::{Part, Plan};
use super::route::Route;
use crate::layout::{Layout, Placed, is_regular};

/// A replica's layout and its read rate.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The layout.
    pub layout: &'a Layout,
    /// The index of its first file among the windows of a request.
    pub first_file: usize,
    /// The read rate in bytes per second. Only the ratio to other replicas matters.
    pub rate: f64,
}

/// A device or memory fetches at least this many bytes per read.
const MIN_FETCH_BYTES: u64 = 64;

impl Plan {
    /// Plans reads of a view from replicas. Each leaf comes from the source with the least transfer time for the bytes
    /// that must be touched; elements that it lacks come from the next source.
    pub fn reading(view: &Layout, stored: &[Stored]) -> Plan {
        let mut routes = Vec::new();
        for leaf in &view.leaves {
            let mut sources: Vec<(f64, Route)> = Vec::new();
            for replica in stored {
                for placed in replica.layout.leaves.iter().filter(|p| p.leaf == leaf.leaf && is_regular(p)) {
                    let cost = touched(leaf, placed) as f64 / replica.rate.max(f64::MIN_POSITIVE);
                    sources.push((cost, Route { view: leaf, stored: placed, file: replica.first_file + placed.file }));
                }
            }
            sources.sort_by(|a, b| a.0.total_cmp(&b.0));
            // The first source that has all elements suffices. If there is none, all sources are read, the best last,
            // so that its bytes win.
            match sources.iter().position(|(_, route)| has_all(route)) {
                Some(whole) => routes.extend(sources.into_iter().skip(whole).take(1).map(|(_, route)| route)),
                None => routes.extend(sources.into_iter().rev().map(|(_, route)| route)),
            }
        }
        Plan::of(view, &routes, false)
    }

    /// Plans writes of a view's bytes into every copy in one replica.
    pub fn writing(view: &Layout, stored: Stored) -> Plan {
        let mut routes = Vec::new();
        for leaf in &view.leaves {
            let own = stored.layout.leaves.iter().filter(|placed| placed.leaf == leaf.leaf);
            routes.extend(own.map(|placed| Route {
                view: leaf,
                stored: placed,
                file: stored.first_file + placed.file,
            }));
        }
        Plan::of(view, &routes, true)
    }

    /// Plans the conversion from one layout to another.
    pub fn converting(to: &Layout, from: &Layout) -> Plan {
        Plan::reading(to, &[Stored { layout: from, first_file: 0, rate: 1.0 }])
    }
}

/// Estimates the number of stored bytes over which a leaf's elements are spread.
fn touched(view: &Placed, stored: &Placed) -> u64 {
    let apart = stored.loops.iter().flat_map(|walk| &walk.digits).filter(|d| d.count > 1).map(|d| d.stride).min();
    let each = apart.unwrap_or(0).clamp(stored.primitive.size(), MIN_FETCH_BYTES.max(stored.primitive.size()));
    view.count().saturating_mul(each)
}

/// Returns whether a stored leaf has all elements that the view shows. The answer is exact for whole leaves; otherwise
/// it is derived from the number of joined elements.
fn has_all(route: &Route) -> bool {
    let plan = Plan::of(&Layout::default(), &[Route { view: route.view, stored: route.stored, file: 0 }], false);
    // Elements that are walked one by one are not counted, so ask all sources.
    if plan.walked() > 0 {
        return false;
    }
    let moved = plan.parts.iter().map(|part| {
        let Part::Group(group) = part else { return 0 };
        let times = group.counts.iter().fold(1u64, |product, count| product.saturating_mul(*count));
        group.fields.iter().map(|field| field.size).sum::<u64>().saturating_mul(times)
    });
    moved.sum::<u64>() == view_bytes(route.view)
}

fn view_bytes(view: &Placed) -> u64 {
    view.count().saturating_mul(view.primitive.size())
}
