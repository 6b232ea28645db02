//! Claims on a stream of a store that several nodes share: objects that name the node whose process may change some of the stream's
//! progress. The lock of a file holds on one machine only.

use terrace::{Attributes, Batch, Object, Store};

use crate::Result;

const RUNNER_KEY: &str = "/runner";
const NODE_ATTRIBUTE: &str = "node";
/// Claims differ by this, so that a process knows its own.
const TOKEN_ATTRIBUTE: &str = "token";

/// A node's claim. What its holder commits expects that it still holds.
#[derive(Clone)]
pub struct Claim {
    key: Vec<u8>,
    object: Object,
}

/// The claims that a process is about to make.
pub struct Claimant<'a> {
    store: &'a Store,
    node: &'a str,
    token: String,
}

impl<'a> Claimant<'a> {
    pub fn new(store: &'a Store, node: &'a str) -> Result<Claimant<'a>> {
        Ok(Claimant { store, node, token: format!("{:016x}", store.new_number()?) })
    }

    /// Adds to a batch a claim on what has this key, in place of the one that is there.
    pub fn claim(&self, batch: &mut Batch<'_>, key: &[u8], before: Option<&Object>) -> Result<()> {
        let mut attributes = Attributes::now();
        attributes.user.insert(NODE_ATTRIBUTE.into(), self.node.to_owned());
        attributes.user.insert(TOKEN_ATTRIBUTE.into(), self.token.clone());
        match before {
            Some(object) => {
                batch.unchanged(key, object);
                batch.set_attributes(key, attributes);
            }
            None => drop(batch.make(key, 0, attributes)?),
        }
        Ok(())
    }

    /// Returns the claim on this key if the batch has made it.
    pub fn made(&self, key: &[u8]) -> Result<Option<Claim>> {
        let object = find(self.store, key)?;
        Ok(object.and_then(|object| self.own(key, &object)))
    }

    /// Returns the claim that this object is, if the batch has made it.
    pub fn own(&self, key: &[u8], object: &Object) -> Option<Claim> {
        let is_own = object.attributes.user.get(TOKEN_ATTRIBUTE) == Some(&self.token);
        is_own.then(|| Claim { key: key.to_vec(), object: object.clone() })
    }
}

impl Claim {
    /// Makes a batch expect that this claim still holds: a node that was paused must not commit after another one has taken over.
    pub fn guard(&self, batch: &mut Batch<'_>) {
        batch.unchanged(&self.key, &self.object);
    }

    /// Returns whether this object says that the claim holds.
    pub fn is(&self, object: &Object) -> bool {
        (self.object.id, self.object.generation) == (object.id, object.generation)
    }

    /// Adds the end of the claim to a batch, which expects that it still holds.
    pub fn release(&self, batch: &mut Batch<'_>) {
        self.guard(batch);
        batch.remove(&self.key);
    }
}

/// Returns the key of the claim of a process that runs the stream alone.
pub fn runner_key(folder: &str) -> Vec<u8> {
    [folder, RUNNER_KEY].concat().into_bytes()
}

/// Returns the name of the node that holds a claim.
pub fn holder(object: &Object) -> Option<&str> {
    object.attributes.user.get(NODE_ATTRIBUTE).map(String::as_str)
}

/// Returns the object of this key, if there is one.
pub fn find(store: &Store, key: &[u8]) -> Result<Option<Object>> {
    match store.stat(key) {
        Ok(object) => Ok(Some(object)),
        Err(terrace::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a node of the store is there.
pub fn is_there(store: &Store, node: &str) -> Result<bool> {
    Ok(store.nodes()?.iter().any(|other| other.name == node && other.is_there))
}
