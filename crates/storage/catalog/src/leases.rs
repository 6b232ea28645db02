//! Leases in the catalog: records that are not in the log, because no lease outlives its process.

use std::collections::BTreeMap;

use heed::RoTxn;
use serde::{Deserialize, Serialize};

use super::{Catalog, Environment, decode, encode, keys, members};
use crate::Result;

/// The content of a lease: it pins the frames that commits after `generation` free from the object.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pinned {
    object: u64,
    generation: u64,
}

impl Catalog {
    /// Records a lease. `id` is the number of its holder, and its own number.
    pub fn lease(&self, id: (u64, u64), object: u64, generation: u64) -> Result<()> {
        self.reserve.run_with(|| {
            let env = self.env()?;
            let mut txn = env.write_txn()?;
            env.records.put(&mut txn, &keys::lease(id), &encode(&Pinned { object, generation })?)?;
            self.environment.commit(txn)
        })
    }

    /// Ends a lease.
    pub fn unlease(&self, id: (u64, u64)) -> Result<()> {
        self.reserve.run_with(|| {
            let env = self.env()?;
            let mut txn = env.write_txn()?;
            env.records.delete(&mut txn, &keys::lease(id))?;
            self.environment.commit(txn)
        })
    }

    /// All leases: the number of the holder of each, and its own number.
    pub fn leases(&self) -> Result<Vec<(u64, u64)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, &[keys::LEASE_LETTER])? {
            let key = entry?.0;
            found.extend(keys::number(key, 1).zip(keys::number(key, 9)));
        }
        Ok(found)
    }

    /// Returns the oldest generation of each object that this machine's leases pin.
    pub fn leased(&self) -> Result<Vec<(u64, u64)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        Ok(leased_in(&env, &txn)?.into_iter().collect())
    }

    /// The oldest pinned generation of each pinned object.
    pub(super) fn pinned(&self, env: &Environment, txn: &RoTxn<'_>) -> Result<BTreeMap<u64, u64>> {
        let mut oldest = leased_in(env, txn)?;
        members::add_pins(env, txn, &mut oldest)?;
        Ok(oldest)
    }
}

fn leased_in(env: &Environment, txn: &RoTxn<'_>) -> Result<BTreeMap<u64, u64>> {
    let mut oldest = BTreeMap::new();
    for entry in env.records.prefix_iter(txn, &[keys::LEASE_LETTER])? {
        let Pinned { object, generation } = decode(entry?.1, "a lease")?;
        let known = oldest.entry(object).or_insert(generation);
        *known = generation.min(*known);
    }
    Ok(oldest)
}
