//! The file `cluster.toml` of a store's directory: which log the store shares with other nodes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::identity::read_file;
use super::{refuse, write_file};
use crate::config::{Config, TierConfig};
use crate::{Error, Result};

const CLUSTER_FILE: &str = "cluster.toml";

/// A machine's part in a store that several nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The addresses of the servers that keep the log, such as `http://10.0.0.1:2379`.
    pub servers: Vec<String>,
    /// The name of this machine's node. It serves the targets of the configuration with this `node`.
    pub node: String,
    /// A folder that all nodes see, for snapshots of the catalog. Without one, the log is never trimmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<PathBuf>,
    /// The writes that reads on this machine see.
    #[serde(default, skip_serializing_if = "Consistency::is_usual")]
    pub consistency: Consistency,
    /// How the servers know this machine, if not everybody may use them.
    #[serde(default, skip_serializing_if = "Access::is_open")]
    pub access: Access,
}

/// The writes of other nodes that a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// All that was acknowledged before it began. Each look at names asks the log how far it is.
    #[default]
    Newest,
    /// Those of this machine, and of others as far as it has followed them: never less than before, and also while the log does not
    /// answer.
    Session,
}

impl Consistency {
    fn is_usual(&self) -> bool {
        *self == Consistency::Newest
    }
}

/// The files by which a machine and the servers of a log know each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Certificates of authorities in PEM, by which the servers' own are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorities: Option<PathBuf>,
    /// This machine's certificate in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The name of a user of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file with the user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<PathBuf>,
}

impl Access {
    fn is_open(&self) -> bool {
        *self == Access::default()
    }
}

impl Cluster {
    /// Reads the file of the store in `dir`. None if the store belongs to one machine.
    ///
    /// # Errors
    /// [`Error::Store`] if it cannot be understood.
    pub fn read(dir: &Path) -> Result<Option<Cluster>> {
        let Some(bytes) = read_file(&dir.join(CLUSTER_FILE))? else { return Ok(None) };
        let wrong = |reason: String| refuse(dir, &format!("its file {CLUSTER_FILE} is wrong: {reason}"));
        let text = String::from_utf8(bytes).map_err(|e| wrong(e.to_string()))?;
        toml::from_str(&text).map(Some).map_err(|e| wrong(e.to_string()))
    }

    /// Writes the file into `dir`.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|e| refuse(dir, &format!("{CLUSTER_FILE} cannot be written: {e}")))?;
        write_file(&dir.join(CLUSTER_FILE), text.as_bytes())
    }

    /// Checks that nodes can share the targets of a configuration: a node serves each of them, or they are on a service that all nodes
    /// reach.
    ///
    /// # Errors
    /// [`Error::Config`] with the first target that they cannot share.
    pub fn check(config: &Config) -> Result<()> {
        for (tier, target) in config.tiers.iter().flat_map(|tier| tier.targets.iter().map(move |target| (tier, target)))
        {
            let place = tier.place_name(target);
            let wrong =
                |reason: &str| Error::Config(format!("tier {:?}, target {}: {reason}", tier.name, place.display()));
            if !tier.kind.capabilities().remote {
                return Err(wrong(
                    "the other nodes cannot reach it; write kind = \"node\" for what one node serves, or kind = \"object\" for a service",
                ));
            }
            if Cluster::is_common(tier) {
                if target.node.is_some() {
                    return Err(wrong(
                        "it is on a service that all nodes reach, and not on one of them; leave `node` out",
                    ));
                }
            } else if target.node.is_none() {
                return Err(wrong("its node is missing; write { path = \"...\", node = \"NAME\" }"));
            }
        }
        Ok(())
    }

    /// Returns whether all nodes reach the targets of a tier alike: each blob is written by one process, and is durable at once.
    pub fn is_common(tier: &TierConfig) -> bool {
        tier.service.is_some()
    }
}

/// Refuses an operation that would change the store's directory only on this machine.
pub fn refuse_if_shared(dir: &Path) -> Result<()> {
    match Cluster::read(dir)? {
        Some(_) => Err(refuse(
            dir,
            "several nodes share this store, and this operation could harm the others; it is for stores of one machine",
        )),
        None => Ok(()),
    }
}
