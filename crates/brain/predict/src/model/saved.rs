//! Models as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::median::Median;
use super::record::Tally;
use super::regression::{INPUTS, OUTPUTS, Regression};
use super::{Entry, Model};
use crate::ProfiledTier;
use crate::candidates::{ALL, position};

/// Why a saved model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not JSON of this form.
    #[error("the saved model cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// Its machine has no speed.
    #[error("the saved model's machine takes {0} seconds for a byte; that must be a number over 0")]
    Machine(f64),
}

/// How far two machines' speeds may differ and pass for the same machine: so much the measurement varies.
const SAME: f64 = 1.25;

#[derive(Serialize, Deserialize)]
struct Saved {
    machine: f64,
    encodings: BTreeMap<String, SavedEntry>,
    #[serde(default, skip_serializing_if = "SavedRecord::is_empty")]
    record: SavedRecord,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tiers: BTreeMap<String, ProfiledTier>,
}

/// Of encodings that were chosen.
#[derive(Default, Serialize, Deserialize)]
struct SavedRecord {
    spent: f64,
    transfer: f64,
    encodings: BTreeMap<String, Tally>,
}

impl SavedRecord {
    fn is_empty(&self) -> bool {
        self.encodings.is_empty()
    }
}

/// Null and what is left out were never learned.
#[derive(Serialize, Deserialize)]
struct SavedEntry {
    large: Option<f64>,
    small: Option<f64>,
    stand_in: Option<f64>,
    filter: Option<f64>,
    encode: Option<f64>,
    decode: Option<f64>,
    classes: Vec<Option<f64>>,
    times: [[f64; INPUTS]; OUTPUTS],
    effort: [f64; 2],
}

impl Model {
    /// As JSON.
    pub fn to_json(&self) -> String {
        let encodings = ALL.iter().zip(&self.entries);
        let encodings = encodings.map(|(c, entry)| (c.encoding.to_string(), SavedEntry::from(entry))).collect();
        let tallies = ALL.iter().zip(&self.record.tallies).filter(|(_, tally)| **tally != Tally::default());
        let record = SavedRecord {
            spent: self.record.spent,
            transfer: self.record.transfer,
            encodings: tallies.map(|(c, tally)| (c.encoding.to_string(), *tally)).collect(),
        };
        let saved = Saved { machine: self.machine, encodings, record, tiers: self.tiers.clone() };
        // Numbers and strings always have a form in JSON.
        serde_json::to_string(&saved).unwrap_or_default()
    }

    /// From JSON; `machine` is what this machine takes for a byte of the reference work, in seconds. Encodings of which
    /// the saved model knows nothing start anew, those that are no candidates are left out.
    ///
    /// # Errors
    /// [`LoadError`], where the text is not what [`Model::to_json`] makes.
    pub fn from_json(text: &str, machine: f64) -> Result<Model, LoadError> {
        let saved: Saved = serde_json::from_str(text)?;
        if !saved.machine.is_finite() || saved.machine <= 0.0 {
            return Err(LoadError::Machine(saved.machine));
        }
        let faster = machine / saved.machine;
        let same = (1.0 / SAME..SAME).contains(&faster);
        let mut model = Model::new(if same { saved.machine } else { machine });
        for (name, entry) in saved.encodings {
            if let Some(at) = name.parse().ok().and_then(position) {
                model.entries[at] = entry.into();
            }
        }
        model.tiers = saved.tiers;
        model.record.spent = saved.record.spent;
        model.record.transfer = saved.record.transfer;
        for (name, tally) in saved.record.encodings {
            if let Some(at) = name.parse().ok().and_then(position) {
                model.record.tallies[at] = tally;
            }
        }
        Ok(model)
    }
}

/// How quick tiers are, by name, as a saved model has it from a profiler; those of which it makes no sense are left out.
pub fn profiled(json: &str) -> BTreeMap<String, ProfiledTier> {
    #[derive(Default, Deserialize)]
    struct Profiled {
        #[serde(default)]
        tiers: BTreeMap<String, ProfiledTier>,
    }
    let Profiled { mut tiers } = serde_json::from_str(json).unwrap_or_default();
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    tiers.retain(|_, tier| is_rate(tier.write) && is_rate(tier.read) && tier.latency >= 0.0);
    tiers
}

impl From<&Entry> for SavedEntry {
    fn from(entry: &Entry) -> Self {
        let known = |median: &Median| median.known().map(short);
        SavedEntry {
            large: known(&entry.large),
            small: known(&entry.small),
            stand_in: known(&entry.stand_in),
            filter: known(&entry.filter),
            encode: known(&entry.encode),
            decode: known(&entry.decode),
            classes: entry.classes.iter().map(known).collect(),
            times: entry.times.weights().map(|weights| weights.map(short)),
            effort: entry.effort.map(|effort| effort.round()),
        }
    }
}

impl From<SavedEntry> for Entry {
    fn from(saved: SavedEntry) -> Self {
        let median = |value: Option<f64>| value.map_or_else(Median::default, Median::learned);
        let mut entry = Entry {
            large: median(saved.large),
            small: median(saved.small),
            stand_in: median(saved.stand_in),
            filter: median(saved.filter),
            encode: median(saved.encode),
            decode: median(saved.decode),
            times: Regression::learned(saved.times),
            effort: saved.effort,
            ..Entry::default()
        };
        entry.classes.iter_mut().zip(saved.classes).for_each(|(class, value)| *class = median(value));
        entry
    }
}

/// Four digits after the point: what is more than that is noise.
fn short(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
