//! Explains a declaration: the offsets of all elements and the cost of each view.

use std::fmt;

use serde::Serialize;

use crate::convert::{Plan, Stored};
use crate::layout::{Layout, Placed, of_replica, of_view};
use crate::model::{Misfit, Model, Sizes};

/// The explanation of a declaration.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The dataset's primitive parts.
    pub dataset: Vec<Leaf>,
    /// The views.
    pub views: Vec<View>,
    /// The replicas.
    pub replicas: Vec<Replica>,
}

/// A primitive part of the dataset.
#[derive(Clone, Debug, Serialize)]
pub struct Leaf {
    /// Its path.
    pub path: String,
    /// Its type.
    pub primitive: String,
    /// Its lengths.
    pub lengths: Vec<u64>,
}

/// A view.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The length of its file, in bytes.
    pub bytes: u64,
    /// The number of padding bytes in it.
    pub padding: u64,
    /// Whether it is read-only.
    pub read_only: bool,
    /// The replicas that store it unconverted.
    pub stored_in: Vec<String>,
    /// The number of descriptors of a read; `None` without replicas.
    pub descriptors: Option<usize>,
    /// The number of parts that are moved element by element, which is slow.
    pub walked: usize,
    /// The positions of its parts.
    pub parts: Vec<Part>,
}

/// A replica.
#[derive(Clone, Debug, Serialize)]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// The lengths of its files, in bytes.
    pub files: Vec<u64>,
    /// The parts that it stores although its views leave them out.
    pub added: Vec<String>,
    /// The positions of its parts.
    pub parts: Vec<Part>,
}

/// An array of primitives in a file.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Its path in the view.
    pub path: String,
    /// Its type.
    pub primitive: String,
    /// Whether it is big-endian.
    pub big: bool,
    /// The index of the file.
    pub file: usize,
    /// Its first byte.
    pub offset: u64,
    /// The number of repetitions and their distance in bytes for each dimension, outermost first.
    pub steps: Vec<(u64, u64)>,
    /// The path in the dataset.
    pub of: String,
}

/// Explains a declaration without errors, with these lengths of arrays of variable size.
///
/// # Errors
/// [`Misfit`] if the declaration does not fit these sizes.
pub fn explain(model: &Model, sizes: &Sizes) -> Result<Explanation, Misfit> {
    let lay = |replica| of_replica(replica, &model.views, &model.dataset, sizes);
    let layouts: Vec<Layout> = model.replicas.iter().map(lay).collect::<Result<_, _>>()?;
    let mut stored = Vec::new();
    let mut first_file = 0;
    for layout in &layouts {
        stored.push(Stored { layout, first_file, rate: 1.0 });
        first_file += layout.files.len();
    }
    let part = |placed: &Placed| Part {
        path: placed.path.clone(),
        primitive: placed.primitive.to_string(),
        big: placed.big,
        file: placed.file,
        offset: placed.offset,
        steps: placed
            .loops
            .iter()
            .flat_map(|walk| &walk.digits)
            .filter(|d| d.count != 1)
            .map(|d| (d.count, d.stride))
            .collect(),
        of: model.dataset.leaves.get(placed.leaf).map(|leaf| leaf.path.clone()).unwrap_or_default(),
    };
    let view = |(number, view): (usize, &crate::model::View)| {
        let layout = of_view(view, &model.dataset, sizes)?;
        let bytes = layout.files.first().copied().unwrap_or(0);
        let plan = Plan::reading(&layout, &stored);
        let holds = |replica: &&crate::model::Replica| replica.views.contains(&number);
        Ok(View {
            name: view.name.clone(),
            bytes,
            padding: bytes.saturating_sub(layout.payload()),
            read_only: view.style.read_only,
            stored_in: model.replicas.iter().filter(holds).map(|replica| replica.name.clone()).collect(),
            descriptors: (!stored.is_empty()).then(|| plan.descriptors()),
            walked: plan.walked(),
            parts: layout.leaves.iter().map(part).collect(),
        })
    };
    let replica = |(replica, layout): (&crate::model::Replica, &Layout)| Replica {
        name: replica.name.clone(),
        files: layout.files.clone(),
        added: replica.rest.iter().flat_map(|view| &view.variables).map(|variable| variable.name.clone()).collect(),
        parts: layout.leaves.iter().map(part).collect(),
    };
    let leaf = |leaf: &crate::model::Leaf| Leaf {
        path: leaf.path.clone(),
        primitive: leaf.primitive.to_string(),
        lengths: leaf.lengths.iter().map(|length| length.at(sizes)).collect(),
    };
    Ok(Explanation {
        dataset: model.dataset.leaves.iter().map(leaf).collect(),
        views: model.views.iter().enumerate().map(view).collect::<Result<_, _>>()?,
        replicas: model.replicas.iter().zip(&layouts).map(replica).collect(),
    })
}

/// The maximum number of shown lines of a list.
const MAX_LISTED_LINES: usize = 40;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for view in &self.views {
            write!(f, "view {}: {} bytes", view.name, view.bytes)?;
            if view.padding > 0 {
                write!(f, ", {} of them padding", view.padding)?;
            }
            if view.read_only {
                f.write_str(", read-only")?;
            }
            match (&view.stored_in[..], view.descriptors) {
                ([], Some(descriptors)) => {
                    writeln!(f, "; made when read, by {descriptors} descriptor{}", s(descriptors))?
                }
                ([], None) => writeln!(f)?,
                (replicas, _) => writeln!(f, "; stored in {}", replicas.join(", "))?,
            }
            if view.walked > 0 {
                writeln!(f, "  {} of its parts are moved element by element, which is slow", view.walked)?;
            }
            parts(f, &view.parts)?;
        }
        for replica in &self.replicas {
            let total: u64 = replica.files.iter().sum();
            writeln!(
                f,
                "replica {}: {total} bytes in {} file{}",
                replica.name,
                replica.files.len(),
                s(replica.files.len())
            )?;
            if !replica.added.is_empty() {
                writeln!(f, "  added to be complete: {}", replica.added.join(", "))?;
            }
            parts(f, &replica.parts)?;
        }
        Ok(())
    }
}

fn parts(f: &mut fmt::Formatter<'_>, parts: &[Part]) -> fmt::Result {
    for part in parts.iter().take(MAX_LISTED_LINES) {
        let order = if part.big { " big" } else { "" };
        let file = if part.file > 0 { format!("file {} ", part.file) } else { String::new() };
        let steps: String = part.steps.iter().map(|(count, stride)| format!(" {count} x {stride}")).collect();
        writeln!(f, "  {file}{:>10}  {}: {}{order}{steps}  of {}", part.offset, part.path, part.primitive, part.of)?;
    }
    if parts.len() > MAX_LISTED_LINES {
        writeln!(f, "  ... and {} more", parts.len() - MAX_LISTED_LINES)?;
    }
    Ok(())
}

fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
