//! Tells whether a file must be put again.

use std::collections::BTreeSet;

use anyhow::Result;
use terrace::files::Owner;
use terrace::report::{ReplicaLocation, ReplicaState};
use terrace::{Kind, PutOptions, Store};

use super::check::same;
use super::put_options::Put;
use super::put_options::{is_ack_of_all, options};
use super::tree::Item;

/// Returns whether the store already has the file with the requirements that are now requested.
pub fn is_unchanged(store: &Store, item: &Item, put: &Put) -> Result<bool> {
    let object = match store.stat(&item.key) {
        Ok(object) => object,
        Err(terrace::Error::NotFound { .. }) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let now = &item.attributes;
    let length = if now.kind == Kind::Directory { 0 } else { item.metadata.len() };
    let owner = store.owner()?;
    let is_owner = |attributes| Owner::of_object(attributes, owner) == Owner::of(&item.metadata);
    let alike =
        object.attributes.kind == now.kind && object.attributes.mode == now.mode && is_owner(&object.attributes);
    if !alike || object.length != length {
        return Ok(false);
    }
    let asked = options(put, &item.key, None).lasting();
    if asked != PutOptions::default() && asked != PutOptions::kept_with(&item.key, &object)?.lasting() {
        return Ok(false);
    }
    if store.has_lost(&item.key, &object) {
        return Ok(false);
    }
    // An eviction or a move may have left fewer replicas than are asked for.
    let least = if is_ack_of_all(put) { usize::from(object.want) } else { 1 };
    if !has_replicas(store, &item.key, least)? {
        return Ok(false);
    }
    if !put.checksum {
        return Ok(object.attributes.mtime == now.mtime);
    }
    match same(store, item) {
        // Write lost bytes again.
        Err(e) if matches!(e.downcast_ref(), Some(terrace::Error::Unreadable { .. })) => Ok(false),
        same => same,
    }
}

/// Returns whether every extent of an object has a replica, and this number with those that are pending, judged without reading: the files
/// exist.
fn has_replicas(store: &Store, key: &[u8], least: usize) -> Result<bool> {
    let is_there = |replica: &&ReplicaLocation| replica.file.as_ref().is_none_or(|file| file.exists());
    let has_enough = |replicas: &[ReplicaLocation]| {
        let there: Vec<&ReplicaLocation> = replicas.iter().filter(is_there).collect();
        let targets: BTreeSet<&str> = there.iter().map(|replica| replica.target.as_str()).collect();
        there.iter().any(|replica| replica.state == ReplicaState::Present) && targets.len() >= least
    };
    Ok(store.locate(key)?.extents.iter().all(|extent| has_enough(&extent.replicas)))
}
