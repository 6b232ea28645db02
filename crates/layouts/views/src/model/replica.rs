//! Resolved replicas.

use std::collections::HashMap;

use super::View;
use crate::language::ast::{self, At, Consistency, Name, ReplicaLine};
use crate::language::{Diagnostic, Diagnostics, Span, suggest};

/// Variables that are stored together.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// The position of the declaration.
    pub span: Span,
    /// The name of its file, if it differs.
    pub file: Option<String>,
    /// Whether it also stores everything that its views leave out.
    pub complete: bool,
    /// The indices of its views, in order.
    pub views: Vec<usize>,
    /// The time at which a write reaches it.
    pub consistency: Consistency,
    /// Whether a write in place is logged first.
    pub atomic: bool,
    /// The tiers that may store it; empty for any tier.
    pub tiers: Vec<String>,
    /// The encoding, if one is declared.
    pub codec: Option<String>,
    /// The requirements in order.
    pub requirements: Vec<String>,
    /// The storage format.
    pub backend: Backend,
    /// The parts that its views leave out, if it is complete.
    pub rest: Option<View>,
}

/// The storage format of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The bytes of its views.
    #[default]
    Raw,
    /// An HDF5 file: a head, followed by the bytes of its views.
    Hdf5,
}

const REQUIREMENT_NAMES: [&str; 10] = [
    "min_read_latency",
    "max_read_bandwidth",
    "max_read_availability",
    "max_write_availability",
    "max_durability",
    "max_load_balance",
    "min_energy",
    "min_write_latency",
    "max_write_bandwidth",
    "min_storage",
];

/// Resolves a replica.
pub(crate) fn replica(ast: &ast::Replica, views: &[View], diagnostics: &mut Diagnostics) -> Replica {
    let mut replica = Replica {
        name: ast.name.text.clone(),
        span: ast.name.span,
        file: ast.file.clone(),
        complete: ast.complete,
        ..Replica::default()
    };
    let mut said: HashMap<&str, Span> = HashMap::new();
    for At { what, span } in &ast.lines {
        let word = match what {
            ReplicaLine::View(_) => "",
            ReplicaLine::Consistency(..) => "consistency",
            ReplicaLine::Tier(_) => "tier",
            ReplicaLine::Codec(_) => "codec",
            ReplicaLine::Requirement(_) => "requirement",
            ReplicaLine::Backend(_) => "backend",
        };
        if let Some(first) = (!word.is_empty()).then(|| said.insert(word, *span)).flatten() {
            let error = Diagnostic::error(*span, format!("the replica has two lines `{word}`"));
            diagnostics.push(error.label(first, "first here").help("write all on one line, with commas"));
        }
        match what {
            ReplicaLine::View(name) => stored(&mut replica, name, views, diagnostics),
            ReplicaLine::Consistency(when, atomic) => (replica.consistency, replica.atomic) = (*when, *atomic),
            ReplicaLine::Tier(tiers) => replica.tiers = tiers.iter().map(|name| name.text.clone()).collect(),
            ReplicaLine::Codec(name) => replica.codec = Some(name.clone()),
            ReplicaLine::Requirement(names) => {
                for name in names {
                    if !REQUIREMENT_NAMES.contains(&name.text.as_str()) {
                        let error = Diagnostic::error(name.span, format!("there is no requirement `{}`", name.text));
                        let help = suggest(&name.text, REQUIREMENT_NAMES.into_iter());
                        diagnostics.push(Diagnostic { help, ..error });
                    }
                    replica.requirements.push(name.text.clone());
                }
            }
            ReplicaLine::Backend(name) => {
                replica.backend = match name.text.as_str() {
                    "raw" => Backend::Raw,
                    "hdf5" => Backend::Hdf5,
                    "zarr" => {
                        let error =
                            Diagnostic::error(name.span, "a replica cannot be stored as a Zarr store".to_owned());
                        let help = "store it raw on a tier of layout plain; `terrace view export` makes references with which Zarr \
                                    reads it where it is, or a Zarr store";
                        diagnostics.push(error.help(help));
                        Backend::Raw
                    }
                    text => {
                        let error = Diagnostic::error(name.span, format!("there is no backend `{text}`"));
                        let help = suggest(text, ["raw", "hdf5"].into_iter());
                        diagnostics.push(Diagnostic { help, ..error });
                        Backend::Raw
                    }
                }
            }
        }
    }
    if replica.views.is_empty()
        && !replica.complete
        && !ast.lines.iter().any(|l| matches!(l.what, ReplicaLine::View(_)))
    {
        let error = Diagnostic::error(ast.name.span, format!("the replica `{}` stores nothing", replica.name));
        diagnostics.push(error.help("name a view in it, or make it complete"));
    }
    replica
}

fn stored(replica: &mut Replica, name: &Name, views: &[View], diagnostics: &mut Diagnostics) {
    let Some(number) = views.iter().position(|view| view.name == name.text) else {
        let error = Diagnostic::error(name.span, format!("there is no view `{}`", name.text));
        let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
        let help = suggest(&name.text, names.iter().copied());
        diagnostics.push(Diagnostic { help, ..error });
        return;
    };
    if replica.views.contains(&number) {
        diagnostics.push(Diagnostic::error(name.span, format!("`{}` is in this replica already", name.text)));
        return;
    }
    replica.views.push(number);
}
