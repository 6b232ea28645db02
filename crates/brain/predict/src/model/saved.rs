//! Models as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::median::Median;
use super::record::Tally;
use super::regression::{REGRESSION_INPUTS, REGRESSION_OUTPUTS, Regression};
use super::{Entry, Model};
use crate::ProfiledTier;
use crate::candidates::{ALL_CANDIDATES, position};

/// Why a saved model cannot be loaded.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The text is not JSON of the expected form.
    #[error("the saved model cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// The speed of the model's machine is not valid.
    #[error("the saved model's machine takes {0} seconds for a byte; that must be a number over 0")]
    Machine(f64),
}

/// The maximum speed ratio of two measurements of the same machine; repeated measurements vary by this much.
const SAME_MACHINE_SPEED_RATIO: f64 = 1.25;

#[derive(Serialize, Deserialize)]
struct Saved {
    machine: f64,
    encodings: BTreeMap<String, SavedEntry>,
    #[serde(default, skip_serializing_if = "SavedRecord::is_empty")]
    record: SavedRecord,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tiers: BTreeMap<String, ProfiledTier>,
}

/// The saved record of chosen encodings.
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

/// The saved model of one candidate. Null and absent values were never learned.
#[derive(Serialize, Deserialize)]
struct SavedEntry {
    large: Option<f64>,
    small: Option<f64>,
    stand_in: Option<f64>,
    filter: Option<f64>,
    encode: Option<f64>,
    decode: Option<f64>,
    classes: Vec<Option<f64>>,
    times: [[f64; REGRESSION_INPUTS]; REGRESSION_OUTPUTS],
    effort: [f64; 2],
}

impl Model {
    /// Returns the model as JSON.
    pub fn to_json(&self) -> String {
        let encodings = ALL_CANDIDATES.iter().zip(&self.entries);
        let encodings = encodings.map(|(c, entry)| (c.encoding.to_string(), SavedEntry::from(entry))).collect();
        let tallies = ALL_CANDIDATES.iter().zip(&self.record.tallies).filter(|(_, tally)| **tally != Tally::default());
        let record = SavedRecord {
            spent: self.record.spent,
            transfer: self.record.transfer,
            encodings: tallies.map(|(c, tally)| (c.encoding.to_string(), *tally)).collect(),
        };
        let saved = Saved { machine: self.machine, encodings, record, tiers: self.tiers.clone() };
        // Numbers and strings can always be serialised as JSON.
        serde_json::to_string(&saved).unwrap_or_default()
    }

    /// Reads a model from JSON. `machine` is the time of the reference work on this machine, in seconds per byte.
    /// Candidates that the saved model does not contain start untrained; encodings that are not candidates are ignored.
    ///
    /// # Errors
    /// [`LoadError`], where the text is not what [`Model::to_json`] makes.
    pub fn from_json(text: &str, machine: f64) -> Result<Model, LoadError> {
        let saved: Saved = serde_json::from_str(text)?;
        if !saved.machine.is_finite() || saved.machine <= 0.0 {
            return Err(LoadError::Machine(saved.machine));
        }
        let faster = machine / saved.machine;
        let same = (1.0 / SAME_MACHINE_SPEED_RATIO..SAME_MACHINE_SPEED_RATIO).contains(&faster);
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

/// Returns the speeds of tiers by name that a profiler stored in a saved model; ignores invalid entries.
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
        let known = |median: &Median| median.known().map(round_to_four_decimals);
        SavedEntry {
            large: known(&entry.large),
            small: known(&entry.small),
            stand_in: known(&entry.stand_in),
            filter: known(&entry.filter),
            encode: known(&entry.encode),
            decode: known(&entry.decode),
            classes: entry.classes.iter().map(known).collect(),
            times: entry.times.weights().map(|weights| weights.map(round_to_four_decimals)),
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

/// Rounds to four decimals; further digits are noise.
fn round_to_four_decimals(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
