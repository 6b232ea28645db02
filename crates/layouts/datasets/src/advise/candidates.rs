//! The layouts that are considered for a dataset: those that the language can express and that suit how the dataset is read.

use std::collections::BTreeSet;

use terrace_views::model::{Length, Model, Shape as Type, Variable};

use super::tiles::tile_shapes;
use crate::access::{Access, Shape};

/// A replica that may be added.
pub struct Candidate {
    /// The name of the replica, and of its view if that is new.
    pub name: String,
    /// The layout in words.
    pub layout: String,
    /// The sections to append to the declaration.
    pub text: String,
}

/// The number of candidates that are compared.
const MAX_CANDIDATES: usize = 32;
/// The number of fields that a name lists.
const MAX_NAMED_FIELDS: usize = 3;

/// Returns the candidates, for accesses in the order of their weight.
pub fn candidates(model: &Model, accesses: &[(Access, Shape)]) -> Vec<Candidate> {
    let mut found = Found { model, all: Vec::new() };
    for (access, _) in accesses {
        found.add_view(&access.view);
    }
    for variable in &model.dataset.variables {
        found.add_for(variable, accesses);
    }
    found.all.truncate(MAX_CANDIDATES);
    found.all
}

struct Found<'a> {
    model: &'a Model,
    all: Vec<Candidate>,
}

impl Found<'_> {
    /// Adds a replica that stores a declared view.
    fn add_view(&mut self, view: &str) {
        let layout = format!("the view {view}");
        if self.all.iter().any(|known| known.layout == layout) {
            return;
        }
        let name = self.free_name(&format!("as_{view}"));
        let text = replica(&name, view);
        self.all.push(Candidate { name, layout, text });
    }

    /// Adds layouts of a variable's fields that are read.
    fn add_for(&mut self, variable: &Variable, accesses: &[(Access, Shape)]) {
        let own = variable.leaf..variable.leaf + variable.shape.leaves();
        let slabs = |shape: &Shape| -> BTreeSet<usize> {
            shape.iter().map(|slab| slab.leaf).filter(|leaf| own.contains(leaf)).collect()
        };
        let read: BTreeSet<usize> = accesses.iter().flat_map(|(_, shape)| slabs(shape)).collect();
        if read.is_empty() {
            return;
        }
        let fields = split(variable, &read);
        if fields.len() < own.len() || own.len() > 1 {
            self.add_new("by_field", variable, &read, "", "each field by itself", &fields);
        }
        let mut together: Vec<BTreeSet<usize>> = Vec::new();
        for set in accesses.iter().map(|(_, shape)| slabs(shape)) {
            if set.len() > 1 && set.len() < own.len() && !together.contains(&set) {
                self.add_new("records", variable, &set, "", "records of some fields", &[select(variable, &set)]);
                together.push(set);
            }
        }
        let Type::Array(lengths, _) = &variable.shape else { return };
        if lengths.len() < 2 {
            return;
        }
        self.add_new("by_column", variable, &read, " rowminor", "the first index fastest", &fields);
        let lengths: Option<Vec<u64>> = lengths
            .iter()
            .map(|length| if let Length::Fixed(length) = length { Some(*length) } else { None })
            .collect();
        for shape in lengths.map(|lengths| tile_shapes(self.model, &lengths, &own, accesses)).unwrap_or_default() {
            let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
            let (flag, words) = (format!(" tiled({})", shape.join(", ")), format!("in tiles of {}", shape.join(" x ")));
            self.add_new("in_tiles", variable, &read, &flag, &words, &fields);
        }
    }

    /// Adds a replica with a view of its own.
    fn add_new(
        &mut self,
        kind: &str,
        variable: &Variable,
        leaves: &BTreeSet<usize>,
        flags: &str,
        layout: &str,
        fields: &[String],
    ) {
        let paths =
            leaves.iter().filter_map(|leaf| self.model.dataset.leaves.get(*leaf)).map(|leaf| leaf.path.as_str());
        let (some, all) = (leaves.len() <= MAX_NAMED_FIELDS, leaves.len() == variable.shape.leaves());
        let named: Vec<&str> = if some && !all { paths.collect() } else { vec![&variable.name] };
        let name = self.free_name(&format!("{kind}_{}", named.join("_").replace('.', "_")));
        let fields: Vec<String> =
            fields.iter().enumerate().map(|(number, field)| format!("    var v{number} {field}\n")).collect();
        let text = format!("view {name}{flags} {{\n{}}}\n{}", fields.concat(), replica(&name, &name));
        let of = if all { variable.name.clone() } else { named.join(", ") };
        self.all.push(Candidate { name, layout: format!("{of}: {layout}"), text });
    }

    /// Returns a name that no view and no replica has.
    fn free_name(&self, wanted: &str) -> String {
        let views = self.model.views.iter().map(|view| &view.name);
        let replicas = self.model.replicas.iter().map(|replica| &replica.name);
        let taken: BTreeSet<&String> = views.chain(replicas).chain(self.all.iter().map(|known| &known.name)).collect();
        let short: String = wanted.chars().take(MAX_NAME_LETTERS).collect();
        let numbered = (2..).map(|number| format!("{short}_{number}"));
        std::iter::once(short.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(short)
    }
}

/// Longer names are cut off.
const MAX_NAME_LETTERS: usize = 60;

/// Returns the section of a replica that stores a view. Writers do not wait for it.
fn replica(name: &str, view: &str) -> String {
    format!("replica {name} {{\n    view {view}\n    consistency async 2s\n}}\n")
}

/// Returns the declaration of each field, without the name.
fn split(variable: &Variable, leaves: &BTreeSet<usize>) -> Vec<String> {
    leaves.iter().map(|leaf| select(variable, &BTreeSet::from([*leaf]))).collect()
}

/// Returns the declaration of a view's variable that shows some fields, without its name.
fn select(variable: &Variable, leaves: &BTreeSet<usize>) -> String {
    format!("{} = {}", selection(&variable.shape, variable.leaf, leaves), variable.name)
}

/// Returns the selection of some leaves of a type whose leaves begin with `first`; empty for all.
fn selection(shape: &Type, first: usize, leaves: &BTreeSet<usize>) -> String {
    if leaves.range(first..first + shape.leaves()).count() == shape.leaves() {
        return String::new();
    }
    match shape {
        Type::Primitive(_) => String::new(),
        Type::Array(_, element) => format!("[] {}", selection(element, first, leaves)),
        Type::Struct(members) => {
            let mut at = first;
            let mut shown = Vec::new();
            for member in members.iter() {
                let count = member.shape.leaves();
                if leaves.range(at..at + count).next().is_some() {
                    shown.push(format!("{} {}", member.name, selection(&member.shape, at, leaves)));
                }
                at += count;
            }
            format!("{{ {} }}", shown.join("; "))
        }
    }
}
