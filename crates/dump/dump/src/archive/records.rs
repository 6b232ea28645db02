//! The records of an archive.

use serde::{Deserialize, Serialize};

use crate::chunk::Hash;
use crate::manifest::{self, Complete, Index, Manifest};
use crate::{Error, Result};

/// A version that is whole in an archive: names all of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedVersion {
    /// The name of the dump.
    pub name: String,
    /// The number of the version.
    pub version: u32,
    /// The record that the version has in the nodes' stores.
    pub complete: Complete,
    /// The hash of each rank's record.
    pub ranks: Vec<Hash>,
    /// The names of the packs that the records refer to.
    pub packs: Vec<String>,
}

/// The part of a version that belongs to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedRank {
    /// The chunks of the rank's buffers.
    pub manifest: Manifest,
    /// Their places.
    pub index: Index,
}

impl ArchivedVersion {
    /// Encodes it, with a hash of all of it behind.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = manifest::encode(self)?;
        bytes.extend(Hash::of(&bytes).0);
        Ok(bytes)
    }

    /// Decodes it, and checks that it is that of this version; `what` names its origin in errors.
    pub fn decode(what: &str, bytes: &[u8], name: &str, version: u32) -> Result<ArchivedVersion> {
        let record: ArchivedVersion = match bytes.split_last_chunk() {
            Some((record, hash)) if Hash::of(record).0 == *hash => manifest::decode(what, record)?,
            _ => return Err(Error::damaged(what, "its hash is wrong")),
        };
        if (record.name.as_str(), record.version) != (name, version) {
            let reason = format!("it is the record of version {} of dump {:?}", record.version, record.name);
            return Err(Error::damaged(what, reason));
        }
        Ok(record)
    }
}

impl ArchivedRank {
    /// Decodes it, and checks that its hash is that of the version's record; `what` names its origin in errors.
    pub fn decode(what: &str, bytes: &[u8], hash: &Hash) -> Result<ArchivedRank> {
        if *hash != Hash::of(bytes) {
            return Err(Error::damaged(what, "its hash is not that of the version's record"));
        }
        let record: ArchivedRank = manifest::decode(what, bytes)?;
        record.manifest.positions()?;
        Ok(record)
    }
}
