//! Gives clients the verdicts of their steps.

use terrace_catalog::{Catalog, Verdict};

use crate::state::{BEGIN_NUMBER, END_NUMBER, Outcome, Shared};

/// Gives clients the verdicts that the catalog knows.
pub fn deliver(shared: &Shared) {
    let known: Vec<(u64, u64)> = {
        let mut state = shared.state.lock();
        let slot = state.slot;
        let (known, later): (Vec<_>, Vec<_>) = state.decided.drain(..).partition(|(at, _)| *at <= slot);
        state.decided = later;
        known.into_iter().map(|(_, whose)| whose).collect()
    };
    for whose in known {
        match verdict(&shared.catalog, whose) {
            Ok(outcome) => shared.state.lock().note_outcome(whose, outcome),
            Err(error) => shared.halt(&error),
        }
    }
    shared.changed.notify_all();
}

/// Returns the outcome of a step that the catalog has carried out.
fn verdict(catalog: &Catalog, (session, number): (u64, u64)) -> terrace_catalog::Result<Outcome> {
    Ok(match number {
        BEGIN_NUMBER | END_NUMBER => Outcome::Decided(Verdict::Done(0)),
        // A change without a verdict came after the end of its session.
        _ => Outcome::Decided(catalog.verdict(session, number)?.unwrap_or(Verdict::NoSession)),
    })
}
