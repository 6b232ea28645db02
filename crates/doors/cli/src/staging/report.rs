//! The report of a job's end.

use std::path::Path;

use serde::Serialize;
use terrace::key;

use crate::output::{count, size};

/// The outcome of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedAs {
    /// It was copied, and is there.
    Copied,
    /// It was there before.
    Present,
    /// It could not be copied, or differs there.
    Failed,
    /// It was not tried, was given up at the deadline, or the destination went away.
    Left,
}

/// An object and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct SavedObject {
    /// The key, printed lossily.
    key: String,
    bytes: u64,
    outcome: SavedAs,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The outcomes of all objects, in the order in which they were tried.
#[derive(Clone, Serialize)]
pub struct EndReport {
    to: String,
    /// Whether all are there.
    safe: bool,
    copied: u64,
    present: u64,
    failed: u64,
    left: u64,
    /// Bytes that were copied.
    bytes: u64,
    /// The inputs that were left out because the job has not changed them.
    inputs: u64,
    /// Why the objects are not known, or the command was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    objects: Vec<SavedObject>,
}

impl EndReport {
    /// Begins a report in which all objects are left.
    pub fn begin<'a>(to: &Path, inputs: u64, objects: impl Iterator<Item = (&'a [u8], u64)>) -> EndReport {
        let object = |(key, bytes)| SavedObject {
            key: key::show(key),
            bytes,
            outcome: SavedAs::Left,
            reason: Some("the command ended before it came to this object; run it again".to_owned()),
        };
        let objects: Vec<SavedObject> = objects.map(object).collect();
        let left = objects.len() as u64;
        let to = to.display().to_string();
        EndReport {
            to,
            safe: left == 0,
            copied: 0,
            present: 0,
            failed: 0,
            left,
            bytes: 0,
            inputs,
            reason: None,
            objects,
        }
    }

    /// Notes the outcome of the object with this number.
    pub fn note(&mut self, number: usize, outcome: SavedAs, reason: Option<String>) {
        let Some(object) = self.objects.get_mut(number) else { return };
        (object.outcome, object.reason) = (outcome, reason);
        self.left -= 1;
        match outcome {
            SavedAs::Copied => (self.copied, self.bytes) = (self.copied + 1, self.bytes + object.bytes),
            SavedAs::Present => self.present += 1,
            SavedAs::Failed => self.failed += 1,
            SavedAs::Left => self.left += 1,
        }
        self.safe = self.failed + self.left == 0;
    }

    /// Makes the report of a command that does not know the objects, for this reason.
    pub fn of_unknown(to: &Path, reason: String) -> EndReport {
        EndReport { safe: false, reason: Some(reason), ..EndReport::begin(to, 0, std::iter::empty()) }
    }

    /// Notes that an object that was saved is not there anymore, for this reason.
    pub fn note_lost(&mut self, number: usize, outcome: SavedAs, reason: String) {
        let Some(object) = self.objects.get_mut(number) else { return };
        match object.outcome {
            SavedAs::Copied => (self.copied, self.bytes) = (self.copied - 1, self.bytes - object.bytes),
            SavedAs::Present => self.present -= 1,
            SavedAs::Failed | SavedAs::Left => return,
        }
        // As if it had not come to it.
        self.left += 1;
        object.outcome = SavedAs::Left;
        self.note(number, outcome, Some(reason));
    }

    /// Returns whether no object is left.
    pub fn is_tried(&self) -> bool {
        self.left == 0
    }

    /// Returns the numbers of the objects that were saved.
    pub fn saved(&self) -> Vec<usize> {
        let is_saved = |object: &SavedObject| matches!(object.outcome, SavedAs::Copied | SavedAs::Present);
        self.objects.iter().enumerate().filter(|(_, object)| is_saved(object)).map(|(number, _)| number).collect()
    }

    /// Notes that there is no destination, for this reason: of what was copied before, nothing is at its place.
    pub fn note_gone(&mut self, reason: &str) {
        for object in &mut self.objects {
            object.reason = Some(match object.outcome {
                SavedAs::Failed => continue,
                SavedAs::Copied => format!("it was copied; then {reason}"),
                SavedAs::Present | SavedAs::Left => reason.to_owned(),
            });
            object.outcome = SavedAs::Left;
        }
        self.left += self.copied + self.present;
        (self.copied, self.present, self.bytes, self.safe) = (0, 0, 0, false);
    }

    /// Notes that the command is given up, for this reason. While it looks again, nothing of what was saved is certain.
    pub fn give_up(&mut self, reason: &str, looks_again: bool) {
        if looks_again {
            self.note_gone(reason);
        }
        for object in self.objects.iter_mut().filter(|object| object.outcome == SavedAs::Left) {
            object.reason = Some(reason.to_owned());
        }
        (self.safe, self.reason) = (false, Some(reason.to_owned()));
    }

    /// Notes a name whose object is not copied, for this reason.
    pub fn note_not_copied(&mut self, name: &[u8], reason: &str) {
        let reason = Some(reason.to_owned());
        self.objects.push(SavedObject { key: key::show(name), bytes: 0, outcome: SavedAs::Failed, reason });
        self.failed += 1;
        self.safe = false;
    }

    /// Returns whether all objects are there.
    pub fn is_safe(&self) -> bool {
        self.safe
    }

    /// Returns the objects that are not there, with the reasons.
    pub fn lacking(&self) -> impl Iterator<Item = (&str, &str)> {
        let lacks = |object: &&SavedObject| matches!(object.outcome, SavedAs::Failed | SavedAs::Left);
        let lacking = self.objects.iter().filter(lacks);
        lacking.map(|object| (object.key.as_str(), object.reason.as_deref().unwrap_or_default()))
    }

    /// Returns the words for people.
    pub fn describe(&self) -> String {
        let EndReport { to, copied, present, failed, left, bytes, .. } = self;
        let copied = count(*copied, "object");
        format!("{copied} copied to {to} ({}), {present} there before, {failed} failed, {left} left", size(*bytes))
    }
}
