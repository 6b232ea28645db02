//! The record of a job's inputs in its store.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use terrace::{PutOptions, Store};

const INPUTS_KEY: &[u8] = b".terrace/job/inputs";

/// The generation that each input had when it was staged. An object with another one was changed by the job.
#[derive(Default)]
pub struct InputRecord(BTreeMap<Vec<u8>, u64>);

impl InputRecord {
    /// Reads the store's record, which is empty if no inputs were staged.
    pub fn read(store: &Store) -> Result<InputRecord> {
        let bytes = match store.get(INPUTS_KEY) {
            Err(terrace::Error::NotFound { .. }) => return Ok(InputRecord::default()),
            read => read?,
        };
        InputRecord::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<InputRecord> {
        let record = postcard::from_bytes(bytes).map(InputRecord);
        record.context("the record of the job's inputs is damaged; name the objects to copy by --save")
    }

    fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(&self.0).context("the record of the job's inputs")
    }

    /// Adds an input that has this generation now.
    pub fn add(&mut self, key: &[u8], generation: u64) {
        self.0.insert(key.to_vec(), generation);
    }

    pub fn write(&self, store: &Store) -> Result<()> {
        store.internal().put_bytes(INPUTS_KEY, &self.encode()?, &PutOptions::default())?;
        Ok(())
    }

    /// Returns whether an object is an input that has not changed.
    pub fn is_unchanged(&self, key: &[u8], generation: u64) -> bool {
        self.0.get(key) == Some(&generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of an older version must be read for ever.
    #[test]
    fn the_record_is_as_it_was_first_written() {
        const WRITTEN_BYTES: &[u8] = b"\x02\x01a\x07\x03b/\xff\xac\x02";
        let record = InputRecord::decode(WRITTEN_BYTES).unwrap();
        assert!(record.is_unchanged(b"a", 7) && record.is_unchanged(b"b/\xff", 300) && !record.is_unchanged(b"a", 8));
        assert_eq!(record.encode().unwrap(), WRITTEN_BYTES);
        assert!(InputRecord::decode(&WRITTEN_BYTES[..5]).is_err());
    }
}
