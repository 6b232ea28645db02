//! A store for clients of S3. A bucket is a folder at the top of the store, and its objects are names of the key space there
//! (`docs/keys.md`). The crate `s3s` speaks the protocol; this one answers its requests by calls of the engine, on threads that may wait.
//!
//! Nothing is kept here: what S3 knows of an object beside its bytes is in its attributes (`described.rs`), its checksums and its ETag
//! are digests, uploads are those of the engine.

mod answers;
mod body;
mod bucket_folder;
mod buckets;
mod checksums;
mod conditions;
mod copy_source;
mod copying;
mod counted_stream;
mod deleting;
mod described;
mod digesting;
#[doc(hidden)]
pub mod hostile;
mod hosts;
mod keys;
mod listing;
mod name_form;
mod new_object;
mod part_lengths;
mod reading;
mod refusal;
mod replaced;
mod server;
mod signed_headers;
mod tags;
mod unsupported;
mod uploads;
mod wishes;
mod writing;

pub use keys::Keys;
pub use server::{S3Options, Server};

use std::fmt;

/// Why a server does not begin. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BeginError(String);

impl BeginError {
    fn new(reason: impl fmt::Display) -> BeginError {
        BeginError(reason.to_string())
    }
}
