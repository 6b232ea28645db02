//! Which stored leaf serves which leaf of a view.

use super::plan::{Part, Plan, Route};
use super::side::is_regular;
use crate::layout::{Layout, Placed};

/// A replica's layout, and how fast its bytes come.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Where everything lies.
    pub layout: &'a Layout,
    /// The number of its first file among the windows that are given to the plan.
    pub first_file: usize,
    /// Bytes per second that it is read at; only the proportion to others matters.
    pub rate: f64,
}

/// Reads fetch no less than this from a device, or from memory.
const LINE: u64 = 64;

impl Plan {
    /// How to read a view from replicas. Each leaf comes from where the fewest bytes have to be touched, by how fast they come;
    /// what that lacks comes from the next.
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
            // The first that has everything will do. Without one all serve, the best last, so that its bytes stay.
            match sources.iter().position(|(_, route)| has_all(route)) {
                Some(whole) => routes.extend(sources.into_iter().skip(whole).take(1).map(|(_, route)| route)),
                None => routes.extend(sources.into_iter().rev().map(|(_, route)| route)),
            }
        }
        Plan::of(view, &routes, false)
    }

    /// How to write a view's bytes into one replica: into each of its copies.
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

    /// How to make the bytes of one layout out of those of another.
    pub fn converting(to: &Layout, from: &Layout) -> Plan {
        Plan::reading(to, &[Stored { layout: from, first_file: 0, rate: 1.0 }])
    }
}

/// Roughly how many stored bytes a leaf's elements lie among.
fn touched(view: &Placed, stored: &Placed) -> u64 {
    let apart = stored.loops.iter().flat_map(|walk| &walk.digits).filter(|d| d.count > 1).map(|d| d.stride).min();
    let each = apart.unwrap_or(0).clamp(stored.primitive.size(), LINE.max(stored.primitive.size()));
    view.count().saturating_mul(each)
}

/// Whether a stored leaf has all elements that the view shows; exact for whole leaves, and else found by counting what joins.
fn has_all(route: &Route) -> bool {
    let plan = Plan::of(&Layout::default(), &[Route { view: route.view, stored: route.stored, file: 0 }], false);
    // What is walked is not counted: all sources are asked.
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
