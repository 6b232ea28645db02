//! The record of a job's inputs in its store: what `job end` leaves out.
//!
//! An input that passes for a result replaces a newer file at the destination, and a result that passes for an input is lost. So an
//! object about which the record is not certain is neither.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace::{Object, PutOptions, Store};

/// The inputs that were staged.
const INPUTS_KEY: &[u8] = b".terrace/job/inputs";
/// The inputs whose staging has begun and not ended.
const BEGUN_KEY: &[u8] = b".terrace/job/begun";
/// The times of modification of these inputs, which their objects get.
const TIMES_KEY: &[u8] = b".terrace/job/times";

/// Numbers of keys.
type Generations = BTreeMap<Vec<u8>, u64>;
/// Times by keys: nanoseconds since 1970.
type Times = BTreeMap<Vec<u8>, i64>;

/// The inputs of a job: those that were staged, and those whose staging has begun.
#[derive(Default)]
pub struct InputRecord {
    /// The generation that each input had when it was staged. An object with another one was changed by the job.
    staged: Generations,
    /// The generation that the object at the key of each input had before its staging began; 0 if there was none. An object with another one may be the
    /// input, or a result: the command that staged it was killed, or found no room for the record.
    begun: Generations,
    /// The time of each input whose staging has begun. An object with another generation than `begun` has, and with this time, is the input: what a job
    /// writes has the time of that.
    times: Times,
}

/// An input whose staging begins.
pub struct BegunInput<'a> {
    pub key: &'a [u8],
    /// Its time of modification.
    pub time: i64,
    /// The object that is at its key now.
    pub there: Option<Object>,
}

/// The origin of an object, by the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeBy {
    Staging,
    Job,
    /// It may be an input, or a result.
    Unknown,
}

impl InputRecord {
    /// Reads the store's record, which is empty if no inputs were staged.
    pub fn read(store: &Store) -> Result<InputRecord> {
        let (staged, begun) = (read(store, INPUTS_KEY)?, read(store, BEGUN_KEY)?);
        Ok(InputRecord { staged, begun, times: read(store, TIMES_KEY)? })
    }

    /// Notes, before the first of them is put, that these inputs are staged, and what is at their keys now.
    pub fn begin(&mut self, store: &Store, inputs: Vec<BegunInput<'_>>) -> Result<()> {
        let settled: Vec<bool> = inputs.iter().map(|input| self.settle(input)).collect();
        if settled.contains(&true) {
            // Before their times, which alone tell what they are, are replaced.
            write(store, INPUTS_KEY, &self.staged)?;
        }
        for BegunInput { key, time, there } in inputs {
            // One whose staging has begun before is still as uncertain as it was.
            let before = there.as_ref().map_or(0, |object| object.generation);
            self.begun.entry(key.to_vec()).or_insert(before);
            // Not where a result may be: one that was written at the time of the input would pass for it.
            if there.is_none() || self.was_staged(key) {
                self.times.insert(key.to_vec(), time);
            } else {
                self.times.remove(key);
            }
        }
        // The times first: a time without the line below says nothing.
        write(store, TIMES_KEY, &self.times)?;
        write(store, BEGUN_KEY, &self.begun)
    }

    /// Adds an input if an earlier command has put it, and was ended before it noted that. Returns whether it was so.
    fn settle(&mut self, input: &BegunInput<'_>) -> bool {
        let Some(object) = &input.there else { return false };
        let is_input = self.made_by(input.key, object.generation) == MadeBy::Unknown
            && self.times.get(input.key) == Some(&object.attributes.mtime);
        if is_input {
            self.staged.insert(input.key.to_vec(), object.generation);
        }
        is_input
    }

    /// Adds an input that is staged, and has this generation now.
    pub fn add(&mut self, key: &[u8], generation: u64) {
        self.staged.insert(key.to_vec(), generation);
        self.forget_begun(key);
    }

    fn forget_begun(&mut self, key: &[u8]) {
        self.begun.remove(key);
        self.times.remove(key);
    }

    /// Writes what was added.
    pub fn write(&self, store: &Store) -> Result<()> {
        write(store, INPUTS_KEY, &self.staged)?;
        // After the line above: in between, what was staged is in both.
        write_or_remove(store, BEGUN_KEY, &self.begun)?;
        write_or_remove(store, TIMES_KEY, &self.times)
    }

    /// Returns what has made an object of this generation.
    pub fn made_by(&self, key: &[u8], generation: u64) -> MadeBy {
        if self.staged.get(key) == Some(&generation) {
            return MadeBy::Staging;
        }
        match self.begun.get(key) {
            Some(before) if *before != generation => MadeBy::Unknown,
            _ => MadeBy::Job,
        }
    }

    /// Returns whether an earlier command has staged what is at a key, or what was there before.
    pub fn was_staged(&self, key: &[u8]) -> bool {
        self.staged.contains_key(key)
    }

    /// Notes that an input is not staged after all: at its key is an object of this generation.
    pub fn give_up(&mut self, key: &[u8], generation: u64) {
        if self.begun.get(key) == Some(&generation) {
            self.forget_begun(key);
        }
    }

    /// Returns whether the job has changed an input that was staged.
    pub fn is_changed(&self, key: &[u8], generation: u64) -> bool {
        self.staged.contains_key(key) && self.made_by(key, generation) == MadeBy::Job
    }
}

fn read<V: DeserializeOwned>(store: &Store, key: &[u8]) -> Result<BTreeMap<Vec<u8>, V>> {
    match store.get(key) {
        Err(terrace::Error::NotFound { .. }) => Ok(BTreeMap::new()),
        read => decode(&read?),
    }
}

fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<BTreeMap<Vec<u8>, V>> {
    postcard::from_bytes(bytes).context("the record of the job's inputs is damaged; name the objects to copy by --save")
}

fn write<V: Serialize>(store: &Store, key: &[u8], values: &BTreeMap<Vec<u8>, V>) -> Result<()> {
    let bytes = postcard::to_stdvec(values).context("the record of the job's inputs")?;
    store
        .internal()
        .put_bytes(key, &bytes, &PutOptions::default())
        .context("writing the record of the job's inputs")?;
    Ok(())
}

fn write_or_remove<V: Serialize>(store: &Store, key: &[u8], values: &BTreeMap<Vec<u8>, V>) -> Result<()> {
    if !values.is_empty() {
        return write(store, key, values);
    }
    match store.internal().remove(key) {
        Err(terrace::Error::NotFound { .. }) => Ok(()),
        removed => Ok(removed?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of an older version must be read for ever.
    #[test]
    fn the_record_is_as_it_was_first_written() {
        const WRITTEN_BYTES: &[u8] = b"\x02\x01a\x07\x03b/\xff\xac\x02";
        const WRITTEN_TIMES: &[u8] = b"\x02\x01a\x00\x01b\x03";
        let staged: Generations = decode(WRITTEN_BYTES).unwrap();
        assert_eq!(staged, Generations::from([(b"a".to_vec(), 7), (b"b/\xff".to_vec(), 300)]));
        assert_eq!(postcard::to_stdvec(&staged).unwrap(), WRITTEN_BYTES);
        assert!(decode::<u64>(&WRITTEN_BYTES[..5]).is_err());
        let times: Times = decode(WRITTEN_TIMES).unwrap();
        assert_eq!(times, Times::from([(b"a".to_vec(), 0), (b"b".to_vec(), -2)]));
        assert_eq!(postcard::to_stdvec(&times).unwrap(), WRITTEN_TIMES);
    }

    #[test]
    fn an_object_is_an_input_only_if_its_staging_has_ended() {
        let generations = |pairs: &[(&[u8], u64)]| pairs.iter().map(|(key, number)| (key.to_vec(), *number)).collect();
        let record = InputRecord {
            staged: generations(&[(b"input", 7), (b"again", 7)]),
            begun: generations(&[(b"again", 7), (b"new", 0), (b"result", 9)]),
            times: Times::new(),
        };
        let cases: [(&[u8], u64, MadeBy); 8] = [
            (b"input", 7, MadeBy::Staging),
            (b"input", 8, MadeBy::Job),
            (b"again", 7, MadeBy::Staging),
            (b"again", 8, MadeBy::Unknown),
            (b"new", 3, MadeBy::Unknown),
            (b"result", 9, MadeBy::Job),
            (b"result", 10, MadeBy::Unknown),
            (b"other", 1, MadeBy::Job),
        ];
        for (key, generation, by) in cases {
            assert_eq!(record.made_by(key, generation), by, "{} {generation}", String::from_utf8_lossy(key));
        }
        let mut record = record;
        assert!(record.was_staged(b"input") && !record.was_staged(b"result") && !record.was_staged(b"new"));
        record.give_up(b"result", 9);
        record.give_up(b"new", 3);
        assert_eq!((record.made_by(b"result", 10), record.made_by(b"new", 3)), (MadeBy::Job, MadeBy::Unknown));
        assert!(record.is_changed(b"input", 8) && !record.is_changed(b"input", 7) && !record.is_changed(b"new", 3));
    }
}
