//! `terrace advise`: replicas in other layouts that a dataset's reads would gain by.

use anyhow::Result;
use serde::Serialize;
use terrace::Store;
use terrace_datasets::{Advice, NotedAccess, NotedField, Proposal, Verdict};

use crate::dataset;
use crate::output::{Show, count, size, table};

/// The number of fields of an access that are named for people.
const MAX_NAMED_FIELDS: usize = 3;

/// The result for scripts.
#[derive(Serialize)]
struct Advised<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    /// The replica that was added.
    added: Option<&'a str>,
}

pub fn advise(store: &Store, name: &str, apply: bool, show: Show) -> Result<bool> {
    let dataset = dataset::open(store, name)?;
    let advice = dataset.advise()?;
    let best = advice.proposals.iter().find(|proposal| proposal.is_worth());
    let added = best.filter(|_| apply);
    show.line(words(&advice).trim_end())?;
    match (best, added) {
        (Some(added), Some(_)) => {
            dataset.add_proposed(added)?;
            show.line(&format!("added the replica {}", added.name))?;
        }
        (Some(best), None) => show.line(&format!(
            "worth it: {}. `terrace advise {} --apply` adds it to the declaration:\n\n{}",
            best.name,
            dataset.name(),
            best.declaration.trim_end()
        ))?,
        (None, _) => {}
    }
    if show.json {
        show.value(&Advised { advice: &advice, added: added.map(|added| added.name.as_str()) })?;
    }
    Ok(true)
}

/// Describes the accesses, and compares the proposals.
fn words(advice: &Advice) -> String {
    let Advice { dataset, accesses, proposals, .. } = advice;
    if accesses.is_empty() {
        return format!("no reads of {dataset} were noted; read its views first, as programs do");
    }
    let mut rows = table(&["times", "read", "fetched", "time", "view", "fields", "elements"]);
    for access in accesses {
        let NotedAccess { view, times, bytes, fetched_bytes, seconds, fields, .. } = access;
        rows.add_row([
            format!("{times:.1}"),
            size(*bytes),
            size(*fetched_bytes),
            milliseconds(*seconds),
            view.clone(),
            named(fields),
            fields.first().map(elements).unwrap_or_default(),
        ]);
    }
    let mut text = format!("reads of {dataset}; each counts half as much after a week:\n{rows}\n");
    if proposals.is_empty() {
        return text + "nothing is worth a replica: in no other layout would they fetch much fewer bytes";
    }
    let head = ["replica", "layout", "fetched", "then", "time", "then", "stored", "to make", "verdict"];
    let mut rows = table(&head);
    for proposal in proposals {
        let Proposal { name, layout, fetched_bytes, seconds, stored_bytes, make_seconds, .. } = proposal;
        rows.add_row([
            name.clone(),
            layout.clone(),
            size(fetched_bytes.0),
            size(fetched_bytes.1),
            milliseconds(seconds.0),
            milliseconds(seconds.1),
            size(*stored_bytes),
            milliseconds(*make_seconds),
            verdict(proposal),
        ]);
    }
    text += &format!("\nreplicas that could be added, and the mean of the reads that each would serve:\n{rows}\n");
    if !proposals.iter().any(Proposal::is_worth) {
        text += "none is worth it so far";
    }
    text
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

/// Names the fields that an access reads.
fn named(fields: &[NotedField]) -> String {
    let names: Vec<&str> = fields.iter().take(MAX_NAMED_FIELDS).map(|field| field.path.as_str()).collect();
    match fields.len().saturating_sub(MAX_NAMED_FIELDS) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Describes the indices in each dimension.
fn elements(field: &NotedField) -> String {
    let dimension = |((start, end), length): (&(u64, u64), &u64)| match end - start {
        number if number == *length => format!("all {length}"),
        number => format!("{number} of {length}"),
    };
    let dimensions: Vec<String> = field.indices.iter().zip(&field.lengths).map(dimension).collect();
    if dimensions.is_empty() { "1".to_owned() } else { dimensions.join(" x ") }
}

fn verdict(proposal: &Proposal) -> String {
    match proposal.verdict {
        Verdict::Worth => "worth it".to_owned(),
        Verdict::TooFewReads => {
            let reads = proposal.reads_to_pay().unwrap_or(u64::MAX);
            format!("pays after {}", count(reads, "read"))
        }
        Verdict::NotFaster => "saves no time".to_owned(),
        Verdict::NoRoom => "no tier has room".to_owned(),
    }
}
