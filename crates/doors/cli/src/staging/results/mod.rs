//! The places of results: a directory, or a service that keeps blobs.

#[cfg(feature = "object")]
mod bucket;
mod destination;
mod folder;
mod syncing;
mod taken;
mod verified;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use terrace::tier::ServiceAddress;
use terrace::{NewFile, Object, Store};

use super::clock::Clock;
use crate::copy::FileNumber;

/// An object, with its key.
pub type Wanted = (Vec<u8>, Object);

/// An object that was written, and is not at its place yet.
pub enum Draft {
    /// A file under a hidden name.
    File(NewFile),
    /// It is there already, or [`ResultPlace::publish`] writes it.
    None,
}

/// The result of a look at the place of an object.
pub enum Look {
    Nothing,
    /// Something of its kind and length. A file or folder has a number.
    There(Option<FileNumber>),
    /// The same, but it is not the file that was compared, or was changed since.
    Changed(Option<FileNumber>),
}

impl Look {
    pub fn is_there(&self) -> bool {
        matches!(self, Look::There(_) | Look::Changed(_))
    }
}

/// A place of results, each under its key. Threads use it at the same time, each for another object.
pub trait ResultPlace: Sync {
    /// Fails if the place is not the one that was opened anymore.
    fn check(&self) -> Result<()>;

    /// Returns the name of an object's place, for people.
    fn name_of(&self, key: &[u8]) -> String;

    /// Looks for something of the object's kind and length, without reading it. An error counts as nothing.
    fn look(&self, key: &[u8], object: &Object) -> Look;

    /// Returns whether the place lists an object under its very name.
    fn lists(&self, key: &[u8]) -> bool;

    /// Returns whether a look at many objects takes little time.
    fn looks_fast(&self) -> bool;

    /// Writes the object, whole or not at all.
    fn write(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<Draft>;

    /// Makes drafts survive a power cut. One that does not becomes an error.
    fn sync_drafts(&self, drafts: &mut [Result<Draft>]);

    /// Gives a draft its place. No two calls at the same time.
    fn publish(&self, store: &Store, key: &[u8], object: &Object, draft: Draft) -> Result<()>;

    /// Makes what is at the places of objects survive a power cut. Returns a result for each.
    fn sync(&self, objects: &[&Wanted]) -> Vec<Result<()>>;

    /// Returns whether the object is there, by comparing all bytes. If so, it has its mode and time where the place has them.
    fn is_there(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool>;
}

/// Returns the path of an object's file at the place that the command line names. None if it has no files.
pub fn file_of(text: &OsStr, key: &[u8]) -> Option<PathBuf> {
    match ServiceAddress::parse(text) {
        Some(_) => None,
        None => Some(Path::new(text).join(OsStr::from_bytes(key))),
    }
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
