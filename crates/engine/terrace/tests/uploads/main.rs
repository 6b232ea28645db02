//! Uploads of several parts: the parts become one object at once, or nothing does, and none is left.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod parts;
mod processes;
mod random;

use common::replicated;
use terrace::{Ack, PutOptions, Store, UploadId, UploadPart};

fn durable() -> PutOptions {
    PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }
}

fn put_part(
    store: &Store,
    upload: UploadId,
    number: u32,
    bytes: &[u8],
    options: &PutOptions,
) -> terrace::Result<UploadPart> {
    let digest = common::described(bytes, None);
    store.put_part(upload, number, bytes, options, |attributes| attributes.take_digests(&digest))
}

fn named(part: &UploadPart) -> (u32, String) {
    (part.number, part.object.etag())
}

/// All parts of an upload, as they are completed.
fn all_parts(store: &Store, upload: UploadId) -> Vec<(u32, String)> {
    store.list_parts(upload, None, usize::MAX).unwrap().iter().map(named).collect()
}

fn complete(store: &Store, upload: UploadId) -> terrace::Result<()> {
    store.complete_upload(upload, &all_parts(store, upload), &replicated(), |_| ()).map(drop)
}

/// The objects of uploads: folders and parts.
fn left(store: &Store) -> usize {
    store.list(terrace::key::UPLOADS_FOLDER, None, 100_000).unwrap().len()
}

/// The bytes of a part.
fn bytes_of(store: &Store, upload: UploadId, number: u32) -> Vec<u8> {
    let key = format!(".terrace/uploads/{upload}/{number:010}").into_bytes();
    let bytes = store.get(&key).unwrap();
    common::check_digest(&store.stat(&key).unwrap(), &bytes);
    bytes
}
