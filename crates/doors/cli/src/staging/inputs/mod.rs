//! The places of inputs: a directory, or a service that keeps blobs.

#[cfg(feature = "object")]
mod bucket;
mod folder;

use std::ffi::OsStr;

use anyhow::{Result, ensure};
use terrace::sparse::ReadHoles;
use terrace::tier::ServiceAddress;
use terrace::{Attributes, Store, key};

use super::unfinished::{UNFINISHED_NAME, is_unfinished};
use crate::output::{name, note};

/// An input of a job.
pub struct Input<'a> {
    pub key: Vec<u8>,
    pub attributes: Attributes,
    pub length: u64,
    /// Opens its bytes. Several inputs are open at the same time.
    pub open: OpenInput<'a>,
}

type OpenInput<'a> = Box<dyn Fn() -> Result<Box<dyn ReadHoles + 'a>> + Sync + 'a>;

/// A place of inputs.
pub trait InputPlace {
    /// Finds an input by its name, or all in a folder; without a name, all that are there. An error is one for each that cannot be staged.
    fn find(&self, store: &Store, name: Option<&[u8]>) -> Vec<Result<Input<'_>>>;
}

/// Returns an input, unless its name cannot be a key.
fn checked(input: Input<'_>) -> Result<Input<'_>> {
    key::check(&input.key)?;
    Ok(input)
}

/// Fails if a name that a list has is that of an unfinished result.
fn check_finished(name: &[u8]) -> Result<()> {
    ensure!(!is_unfinished(name), UNFINISHED_NAME);
    Ok(())
}

/// Says that something in a folder is no input.
fn note_unfinished(key: &[u8]) {
    note(&format!("{}: skipped, since an interrupted command has left it", name(key)));
}

/// Opens the place that the command line names.
pub fn open_inputs(store: &Store, text: &OsStr, options: &[String]) -> Result<Box<dyn InputPlace>> {
    match ServiceAddress::parse(text) {
        Some(address) => open_bucket(store, address, options),
        None => Ok(Box::new(folder::InputFolder::new(store, text.as_ref())?)),
    }
}

#[cfg(feature = "object")]
fn open_bucket(store: &Store, address: ServiceAddress, options: &[String]) -> Result<Box<dyn InputPlace>> {
    Ok(Box::new(bucket::InputBucket::new(store, &address.service(options)?)?))
}

#[cfg(not(feature = "object"))]
fn open_bucket(_: &Store, address: ServiceAddress, _: &[String]) -> Result<Box<dyn InputPlace>> {
    Err(address.not_compiled_in().into())
}
