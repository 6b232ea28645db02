//! `terrace predictor`: the accuracy of predictions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;
use terrace_predict::{Compared, Predictor, Report};

use crate::errors::read_text;
use crate::interrupt::TemporaryFile;
use crate::output::{Show, table};

/// Returns the path of a store's learned state.
pub fn kept(store: &Path) -> PathBuf {
    store.join("predictor.json")
}

/// Saves the learned state atomically.
pub fn keep(predictor: &Predictor, path: &Path) -> Result<()> {
    let context = || format!("writing {}", path.display());
    let (beside, ()) = TemporaryFile::make(path, |at| fs::write(at, predictor.save() + "\n")).with_context(context)?;
    beside.into_place(path).with_context(context)
}

/// Loads the learned state from a file.
pub fn load(path: &Path) -> Result<Predictor> {
    Predictor::load(&read_text(path)?).with_context(|| format!("reading {}", path.display()))
}

/// Shows the errors of predictions, or imports state learned elsewhere.
pub fn predictor(store: &Path, take: Option<&Path>, show: Show) -> Result<bool> {
    if !store.join("store").exists() {
        bail!("no store is in {}; `terrace init` makes one", store.display());
    }
    let path = kept(store);
    if let Some(from) = take {
        keep(&load(from)?, &path)?;
        let words = format!("the store begins with what {} says, once nobody has it open", from.display());
        show.result(&json!({"taken": from}), &words)?;
        return Ok(true);
    }
    let report = if path.exists() { load(&path)? } else { Predictor::default() }.report();
    if show.json {
        show.value(&report)?;
        return Ok(true);
    }
    show.line(&words(&report))?;
    Ok(true)
}

fn words(report: &Report) -> String {
    if report.encodings.is_empty() {
        let words =
            "nothing was chosen yet, or the commands that did have not ended; `terrace put` chooses for slow tiers";
        return words.to_owned();
    }
    let mut rows = table(&["encoding", "chosen", "share", "ratio", "encodes MB/s", "decodes MB/s"]);
    for row in &report.encodings {
        rows.add_row([
            row.encoding.clone(),
            row.chosen.to_string(),
            format!("{:.1} %", 100.0 * row.share),
            compared(row.ratio, 1.0, 2),
            compared(row.encode, 1e-6, 0),
            compared(row.decode, 1e-6, 0),
        ]);
    }
    let effort = 100.0 * report.spent / report.transfer.max(f64::MIN_POSITIVE);
    format!(
        "{rows}\nas predicted -> as it came, and how far a prediction is off on average\n\
         choosing took {:.3} s, {effort:.2} % of the {:.1} s that moving the bytes takes, counted at 0.25 MB/s\n\
         where bytes stored are what matters",
        report.spent, report.transfer
    )
}

fn compared(compared: Option<Compared>, unit: f64, digits: usize) -> String {
    compared.map_or_else(String::new, |Compared { predicted, realised, error }| {
        format!("{:.digits$} -> {:.digits$}, {:.1} %", predicted * unit, realised * unit, 100.0 * error)
    })
}
