//! Checks that views and replicas fit together.

use super::set::{Set, all, around, both, count, covered, repeated, seen};
use super::view::ViewVariable;
use super::{Dataset, Misfit, Model, Replica, Sizes, View};
use crate::language::{Diagnostic, Diagnostics};

/// Checks assume this length for arrays of variable size.
const ASSUMED_ARRAY_LENGTH: u64 = 1 << 20;

/// Returns sizes for checks that run before the data with the real sizes exists.
pub(crate) fn supposed(dataset: &Dataset) -> Sizes {
    (0..dataset.variables.len()).map(|variable| (variable, ASSUMED_ARRAY_LENGTH)).collect()
}

/// The part of a leaf that a variable sees.
struct Stored {
    leaf: usize,
    set: Option<Set>,
}

fn sees(variable: &ViewVariable, lengths: &[u64]) -> Vec<Stored> {
    variable.node.leaves().iter().map(|s| Stored { leaf: s.leaf, set: seen(s, lengths) }).collect()
}

/// Checks slices, and warns about elements that are shown twice. Returns false if a slice is wrong.
pub(crate) fn view(view: &View, dataset: &Dataset, diagnostics: &mut Diagnostics) -> bool {
    let sizes = supposed(dataset);
    let mut held: Vec<(Stored, &ViewVariable)> = Vec::new();
    let mut good = true;
    for variable in &view.variables {
        let lengths = match variable.lengths(dataset, &sizes) {
            Ok(lengths) => lengths,
            Err(misfit) => {
                let error = Diagnostic::error(variable.span, misfit.to_string());
                let help = matches!(misfit, Misfit::OutOfBounds { .. })
                    .then(|| "indices begin at 0 and end before the length".to_owned());
                diagnostics.push(Diagnostic { help, ..error });
                good = false;
                continue;
            }
        };
        let writable =
            if view.style.read_only { "" } else { "; if the copies differ, the last one in the file is stored" };
        if around(variable).iter().any(|(seen, loops)| repeated(seen, loops, &lengths)) {
            diagnostics
                .push(Diagnostic::warning(variable.span, format!("`{}` repeats elements{writable}", variable.name)));
        }
        for now in sees(variable, &lengths) {
            let twice = held.iter().find(|(before, _)| {
                before.leaf == now.leaf
                    && match (&before.set, &now.set) {
                        (Some(a), Some(b)) => count(&both(a, b)) > 0,
                        _ => true,
                    }
            });
            if let Some((_, first)) = twice {
                let path = dataset.leaves.get(now.leaf).map_or("", |leaf| &leaf.path);
                let warning = Diagnostic::warning(variable.span, format!("`{path}` is in the view twice{writable}"));
                diagnostics.push(warning.label(first.span, "it is here, too"));
                continue;
            }
            if held.len() < 4096 {
                held.push((now, variable));
            }
        }
    }
    good
}

/// Returns the leaves that the replica's views do not show completely.
pub(crate) fn left_out(replica: &Replica, views: &[View], dataset: &Dataset) -> Vec<usize> {
    let sizes = supposed(dataset);
    let by_leaf = sets_by_leaf(&[replica], views, dataset, &sizes);
    let lacks = |(leaf, sets): (usize, &Vec<Set>)| {
        let whole = all(dataset, leaf, &sizes);
        (covered(&whole, sets) != Some(count(&whole))).then_some(leaf)
    };
    by_leaf.iter().enumerate().filter_map(lacks).collect()
}

/// Returns whether replicas store everything that views show.
pub(crate) fn stored<'a>(
    seen: impl Iterator<Item = &'a View>,
    by: &[&Replica],
    views: &[View],
    dataset: &Dataset,
) -> bool {
    let sizes = supposed(dataset);
    let by_leaf = sets_by_leaf(by, views, dataset, &sizes);
    seen.flat_map(|view| &view.variables).all(|variable| {
        let Ok(lengths) = variable.lengths(dataset, &sizes) else { return false };
        sees(variable, &lengths).into_iter().all(|needed| {
            let set = needed.set.unwrap_or_else(|| all(dataset, needed.leaf, &sizes));
            by_leaf.get(needed.leaf).is_some_and(|sets| covered(&set, sets) == Some(count(&set)))
        })
    })
}

fn sets_by_leaf(replicas: &[&Replica], views: &[View], dataset: &Dataset, sizes: &Sizes) -> Vec<Vec<Set>> {
    let mut by_leaf = vec![Vec::new(); dataset.leaves.len()];
    for replica in replicas {
        let own = replica.views.iter().filter_map(|number| views.get(*number)).chain(&replica.rest);
        for variable in own.flat_map(|view| &view.variables) {
            let Ok(lengths) = variable.lengths(dataset, sizes) else { continue };
            for stored in sees(variable, &lengths) {
                if let (Some(sets), Some(set)) = (by_leaf.get_mut(stored.leaf), stored.set) {
                    sets.push(set);
                }
            }
        }
    }
    by_leaf
}

/// Checks that replicas store the elements that views need, and warns about variables that no replica stores completely.
pub(crate) fn coverage(model: &Model, diagnostics: &mut Diagnostics) {
    if model.replicas.is_empty() {
        return;
    }
    let dataset = &model.dataset;
    let sizes = supposed(dataset);
    let by_leaf = sets_by_leaf(&model.replicas.iter().collect::<Vec<_>>(), &model.views, dataset, &sizes);
    let mut missed = vec![false; dataset.leaves.len()];
    for view in &model.views {
        for variable in &view.variables {
            let Ok(lengths) = variable.lengths(dataset, &sizes) else { continue };
            for needed in sees(variable, &lengths) {
                let set = needed.set.unwrap_or_else(|| all(dataset, needed.leaf, &sizes));
                let (Some(sets), Some(leaf)) = (by_leaf.get(needed.leaf), dataset.leaves.get(needed.leaf)) else {
                    continue;
                };
                if covered(&set, sets) == Some(count(&set)) {
                    continue;
                }
                if let Some(missed) = missed.get_mut(needed.leaf) {
                    *missed = true;
                }
                let what = if sets.is_empty() { "which" } else { "some of whose elements" };
                let error = format!("`{}` needs `{}`, {what} no replica stores", view.name, leaf.path);
                let help = format!("make a replica complete, or store a view with `{}` in one", leaf.path);
                diagnostics.push(Diagnostic::error(variable.span, error).help(help));
            }
        }
    }
    for variable in &dataset.variables {
        let own = variable.leaf..variable.leaf + variable.shape.leaves();
        let lost = own.filter(|leaf| !missed.get(*leaf).copied().unwrap_or(true)).find(|leaf| {
            let whole = all(dataset, *leaf, &sizes);
            by_leaf.get(*leaf).is_some_and(|sets| covered(&whole, sets) != Some(count(&whole)))
        });
        if let Some(leaf) = lost.and_then(|leaf| dataset.leaves.get(leaf)) {
            let what = format!("no replica stores all of `{}`, and no view shows it", leaf.path);
            diagnostics.push(Diagnostic::warning(variable.span, what).help("make a replica complete to keep it"));
        }
    }
}
