//! The job's own records in its store. All hosts see them in the log, in one order.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use terrace::catalog::{Change, Edit, Expect};
use terrace::{Attributes, PutOptions, Store};

const JOB_KEY: &[u8] = b".terrace/cluster/job";
/// The folder of an object for each host that has copied what only it has.
const COPIED_FOLDER: &str = ".terrace/cluster/copied";
const JOB_ATTRIBUTE: &str = "job";
const PLAN_ATTRIBUTE: &str = "plan";

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its programs use the store.
    Runs,
    /// The catalog is saved before anything is copied.
    Ends,
    /// Each host copies what only it has.
    Copies,
    /// All hosts but the last leave the store.
    Leaves,
}

/// The job that a store is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// The number of its plan.
    pub plan: u64,
    /// The folder that all hosts see.
    pub shared: PathBuf,
    pub phase: Phase,
    /// The seconds that a host may take to copy what only it has.
    pub seconds: Option<u64>,
}

impl JobRecord {
    /// Makes it the store's.
    pub fn publish(&self, store: &Store) -> Result<()> {
        put(store, JOB_KEY, JOB_ATTRIBUTE, serde_json::to_string(self)?)
    }

    /// Reads the store's, as this host's catalog has it. None if the store is no job's.
    pub fn read(store: &Store) -> Result<Option<JobRecord>> {
        let object = store.catalog().object(JOB_KEY)?;
        let text = object.as_ref().and_then(|object| object.attributes.user.get(JOB_ATTRIBUTE));
        text.map(|text| serde_json::from_str(text).context("the record of the job")).transpose()
    }

    /// Brings the job into a later phase, unless it is there already.
    pub fn advance(store: &Store, phase: Phase, seconds: Option<u64>) -> Result<()> {
        loop {
            let object =
                store.catalog().object(JOB_KEY)?.context("the record of the job is not in the store any more")?;
            let record = JobRecord::read(store)?.filter(|record| record.phase < phase);
            let Some(record) = record else { return Ok(()) };
            let record = JobRecord { phase, seconds: record.seconds.or(seconds), ..record };
            let mut attributes = object.attributes;
            attributes.user.insert(JOB_ATTRIBUTE.to_owned(), serde_json::to_string(&record)?);
            let change = Change {
                expect: vec![Expect::Generation(JOB_KEY.to_vec(), object.generation)],
                edits: vec![Edit::SetAttributes { key: JOB_KEY.to_vec(), attributes }],
            };
            match store.catalog().commit(change) {
                // Another host was faster.
                Err(terrace::catalog::Error::Conflict { .. }) => {}
                done => return Ok(done.map(drop)?),
            }
        }
    }
}

/// Notes that a host has copied what only it has.
pub fn note_copied(store: &Store, plan: u64, host: &str) -> Result<()> {
    put(store, format!("{COPIED_FOLDER}/{host}").as_bytes(), PLAN_ATTRIBUTE, plan.to_string())
}

/// Returns whether a host has noted that.
pub fn has_copied(store: &Store, plan: u64, host: &str) -> Result<bool> {
    let object = store.catalog().object(format!("{COPIED_FOLDER}/{host}").as_bytes())?;
    Ok(object.is_some_and(|object| object.attributes.user.get(PLAN_ATTRIBUTE) == Some(&plan.to_string())))
}

fn put(store: &Store, key: &[u8], attribute: &str, value: String) -> Result<()> {
    let user = BTreeMap::from([(attribute.to_owned(), value)]);
    let attributes = Some(Attributes { user, ..Attributes::now() });
    store.internal().put_bytes(key, b"", &PutOptions { attributes, ..PutOptions::default() })?;
    Ok(())
}
