//! The places of results: a directory, or a service that keeps blobs.

#[cfg(feature = "object")]
mod bucket;
mod folder;

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;
use terrace::tier::ServiceAddress;
use terrace::{Object, Store};

use super::clock::Clock;

/// A place of results, each under its key.
pub trait ResultPlace {
    /// Returns the path of an object's file. None if the place has no files.
    fn file(&self, key: &[u8]) -> Option<PathBuf>;

    /// Returns whether something of this length is there.
    fn seems_there(&self, key: &[u8], object: &Object) -> bool;

    /// Returns whether the object is there, by comparing all bytes. If so, it survives a power cut, and has its mode and time where the
    /// place has them.
    fn is_there(&mut self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool>;

    /// Writes the object, whole or not at all.
    fn write(&mut self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<()>;
}

/// Opens the place that the command line names.
pub fn open_results(store: &Store, text: &OsStr, options: &[String]) -> Result<Box<dyn ResultPlace>> {
    match ServiceAddress::parse(text) {
        Some(address) => open_bucket(store, address, options),
        None => Ok(Box::new(folder::ResultFolder::new(store, text.as_ref())?)),
    }
}

#[cfg(feature = "object")]
fn open_bucket(store: &Store, address: ServiceAddress, options: &[String]) -> Result<Box<dyn ResultPlace>> {
    Ok(Box::new(bucket::ResultBucket::new(store, &address.service(options)?)?))
}

#[cfg(not(feature = "object"))]
fn open_bucket(_: &Store, address: ServiceAddress, _: &[String]) -> Result<Box<dyn ResultPlace>> {
    Err(address.not_compiled_in().into())
}
