//! Uploads of several parts: the parts come in any order, and become one object at once. `docs/keys.md` explains them.
//!
//! An upload is a folder below `.terrace/uploads/`, and each part an object in it: so what holds for all objects holds for parts.
//! The commit of a part changes the folder, too. What ends an upload expects the folder unchanged, and removes it with all that is in
//! it: so an upload ends once, and no part is left.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use terrace_catalog::{Attributes, Change, Edit, Expect, Kind, Object};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::Store;
use super::put::Put;
use crate::mover::expiry::now;
use crate::place::PutOptions;
use crate::sparse::Dense;
use crate::{Error, Result};

/// The attribute of an upload's folder that holds its record.
const UPLOAD_ATTRIBUTE: &str = "terrace.upload";
/// Uploads that are looked up at once.
const UPLOADS_PER_PAGE: usize = 1024;
/// How often an upload is looked at again because parts were put meanwhile.
pub(super) const MAX_TRIES: usize = 100;

/// Names an upload in its store; never given to another one. Its text has 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(u64);

/// An upload of several parts that was begun, and neither completed nor aborted.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name.
    pub id: UploadId,
    /// The key of the object that it is to become.
    pub key: Vec<u8>,
    /// When it was begun: nanoseconds since 1970.
    pub begun: i64,
    /// When it is aborted: nanoseconds since 1970. `None`: never.
    pub expiry: Option<u64>,
    /// The attributes that were given for the object.
    pub attributes: Option<Attributes>,
}

/// A part of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadPart {
    /// The parts of the object are in the order of their numbers.
    pub number: u32,
    /// The object that holds the part's bytes: its length, its ETag, when it was put.
    pub object: Object,
}

/// An upload's record, as TOML.
#[derive(Serialize, Deserialize)]
struct UploadRecord {
    /// In hexadecimal digits.
    key: String,
    begun: i64,
    attributes: Option<Attributes>,
}

/// An upload with the object of its folder, and with its parts in order, at one moment.
pub(super) struct Found {
    pub upload: Upload,
    pub folder: Object,
    pub parts: Vec<UploadPart>,
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for UploadId {
    type Err = Error;

    fn from_str(text: &str) -> Result<UploadId> {
        let number = u64::from_str_radix(text, 16).map(UploadId).ok();
        number.filter(|id| id.to_string() == text).ok_or_else(|| Error::NoUpload { upload: text.to_owned() })
    }
}

impl UploadId {
    /// The key of the upload's folder.
    pub(super) fn folder(self) -> Vec<u8> {
        [key::UPLOADS_FOLDER, b"/", self.to_string().as_bytes()].concat()
    }

    /// The key of a part. Parts sort by number.
    pub(super) fn part(self, number: u32) -> Vec<u8> {
        [self.folder().as_slice(), format!("/{number:010}").as_bytes()].concat()
    }

    fn number_of(self, part: &[u8]) -> Option<u32> {
        let name = part.strip_prefix(self.folder().as_slice())?.strip_prefix(b"/")?;
        str::from_utf8(name).ok()?.parse().ok()
    }

    pub(super) fn not_found(self) -> Error {
        Error::NoUpload { upload: self.to_string() }
    }

    pub(super) fn is_busy(self) -> Error {
        let reason = "parts of it are put all the time; try again when all are there".to_owned();
        Error::Conflict { key: key::show(&self.folder()), reason }
    }

    /// Whether an error says that the upload's folder is gone or has changed.
    pub(super) fn is_conflict(self, error: &Error) -> bool {
        matches!(error, Error::Conflict { key, .. } | Error::NotFound { key } if *key == key::show(&self.folder()))
    }

    /// The expectations of a commit that ends the upload.
    pub(super) fn expect_unchanged(self, folder: &Object) -> Vec<Expect> {
        vec![Expect::Names(self.folder(), self.0), Expect::Generation(self.folder(), folder.generation)]
    }
}

impl Found {
    /// The edits that remove the upload and all of its parts.
    pub fn removal(&self) -> Vec<Edit> {
        let parts = self.parts.iter().map(|part| self.upload.id.part(part.number));
        parts.chain([self.upload.id.folder()]).map(|key| Edit::Remove { key }).collect()
    }
}

impl Store {
    /// Begins an upload of several parts, which is to become the object at `key`. Nothing is at `key` before the upload is completed.
    ///
    /// The parts and the object are stored as `options` and the rules for `key` say. An upload that has not ended at `expiry`, in
    /// nanoseconds since 1970, is aborted.
    ///
    /// # Errors
    /// As [`Store::put`] for a key or options that cannot be.
    ///
    /// ```
    /// # use terrace::{Config, PutOptions, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
    /// # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
    /// let options = PutOptions::default();
    /// let upload = store.begin_upload(b"photos/a.jpg", &options, None)?;
    /// let last = store.put_part(upload, 7, &b" and the rest"[..], &options, |_| ())?;
    /// let first = store.put_part(upload, 1, &b"some bytes"[..], &options, |_| ())?;
    /// let parts = [(1, first.object.etag()), (7, last.object.etag())];
    /// store.complete_upload(upload, &parts, &options, |_| ())?;
    /// assert_eq!(store.get(b"photos/a.jpg")?, b"some bytes and the rest");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_upload(&self, key: &[u8], options: &PutOptions, expiry: Option<u64>) -> Result<UploadId> {
        self.check_changeable(key)?;
        options.check_for(&self.engine.tiers)?;
        let id = UploadId(self.engine.catalog.next_id()?);
        let attributes = options.attributes.clone();
        let record = UploadRecord { key: key::hex(key), begun: unix_nanos(), attributes };
        let damaged = |error: toml::ser::Error| Error::Damaged { what: record_of(id), reason: error.to_string() };
        let text = toml::to_string(&record).map_err(damaged)?;
        let mut attributes = Attributes { kind: Kind::Directory, mode: 0o700, ..Attributes::now() };
        attributes.user.insert(UPLOAD_ATTRIBUTE.to_owned(), text);
        attributes.set_expiry(expiry);
        options.lasting().to_kept()?.store_in(&mut attributes.user);
        let (key, object, length, want) = (id.folder(), id.0, 0, 0);
        let expect = vec![Expect::Absent(key.clone()), Expect::Free(key.clone())];
        let edit = Edit::Put { key, object, length, want, attributes, staged: false, extents: Vec::new() };
        self.engine.catalog.commit(Change { expect, edits: vec![edit] })?;
        Ok(id)
    }

    /// Writes a part of an upload, read to its end from `source`. It replaces the part of the same number. `describe` completes the
    /// part's attributes once all bytes were read, so that they can hold digests.
    ///
    /// Settings that `options` leave open are those of [`Store::begin_upload`].
    ///
    /// # Errors
    /// [`Error::NoUpload`] if the upload has ended, also if it ends meanwhile: then nothing is left of the part. All else as
    /// [`Store::put`].
    pub fn put_part(
        &self,
        upload: UploadId,
        number: u32,
        source: impl Read,
        options: &PutOptions,
        describe: impl FnOnce(&mut Attributes),
    ) -> Result<UploadPart> {
        let (found, folder) = self.find_upload(upload)?;
        let options = options.clone().over(&PutOptions::kept_with(&upload.folder(), &folder)?);
        // Each commit that puts a part changes the folder, so none is overlooked by what ends the upload.
        let touch = Edit::SetLength { key: upload.folder(), length: 0, mtime: unix_nanos() };
        let expect = vec![Expect::Names(upload.folder(), folder.id)];
        let key = upload.part(number);
        let put = Put { key: &key, ruled_by: &found.key, expect, then: vec![touch] };
        let mut described = Attributes::default();
        let describe = |attributes: &mut Attributes| {
            describe(attributes);
            attributes.set_expiry(found.expiry);
            described = attributes.clone();
        };
        let mut source = Dense(source);
        let placed = self.internal().put_by(put, &options, |writer| writer.fill(&mut source), describe);
        let (mut receipt, ack) = match placed {
            Err(error) if upload.is_conflict(&error) => return Err(upload.not_found()),
            placed => placed?,
        };
        terrace_system::fail::point("upload:part");
        self.wait_if_asked(&mut receipt, ack)?;
        let (id, generation, length, want) = (receipt.object, receipt.generation, receipt.bytes, receipt.want);
        let object = Object { id, generation, length, want, attributes: described, extents_in_record: None };
        Ok(UploadPart { number, object })
    }

    /// Up to `limit` parts of an upload, in order of numbers, after number `after`.
    ///
    /// # Errors
    /// [`Error::NoUpload`] if it has ended.
    pub fn list_parts(&self, upload: UploadId, after: Option<u32>, limit: usize) -> Result<Vec<UploadPart>> {
        self.find_upload(upload)?;
        let after = after.map_or_else(|| upload.folder(), |number| upload.part(number));
        let listed = self.engine.catalog.list(&upload.folder(), Some(&after), limit)?;
        Ok(parts_in(upload, listed))
    }

    /// An upload.
    ///
    /// # Errors
    /// [`Error::NoUpload`] if it has ended.
    pub fn upload(&self, upload: UploadId) -> Result<Upload> {
        Ok(self.find_upload(upload)?.0)
    }

    /// The uploads to keys that begin with the bytes `prefix`, in order of keys, and of their beginning. All uploads are looked at.
    pub fn list_uploads(&self, prefix: &[u8]) -> Result<Vec<Upload>> {
        let (mut uploads, mut next) = (Vec::new(), Some(Vec::new()));
        while let Some(from) = next {
            let children;
            (children, next) = self.engine.catalog.children(key::UPLOADS_FOLDER, &from, UPLOADS_PER_PAGE)?;
            for child in children {
                let id = str::from_utf8(&child.name).ok().and_then(|name| name.parse().ok());
                let (Some(id), Some(folder)) = (id, child.object) else { continue };
                uploads.extend(read_upload(id, &folder)?);
            }
        }
        uploads.retain(|upload| upload.key.starts_with(prefix));
        uploads.sort_by(|a, b| (&a.key, a.id).cmp(&(&b.key, b.id)));
        Ok(uploads)
    }

    /// Ends an upload without an object: it and all of its parts are removed.
    ///
    /// # Errors
    /// [`Error::NoUpload`] if it has ended.
    pub fn abort_upload(&self, upload: UploadId) -> Result<()> {
        for _ in 0..MAX_TRIES {
            let found = self.upload_with_parts(upload)?;
            let change = Change { expect: upload.expect_unchanged(&found.folder), edits: found.removal() };
            match self.engine.catalog.commit(change).map_err(Error::from) {
                Ok(_) => {
                    terrace_system::fail::point("upload:aborted");
                    return Ok(());
                }
                Err(error) if upload.is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(upload.is_busy())
    }

    fn find_upload(&self, upload: UploadId) -> Result<(Upload, Object)> {
        let folder = self.engine.catalog.object(&upload.folder())?.ok_or_else(|| upload.not_found())?;
        let found = read_upload(upload, &folder)?.ok_or_else(|| upload.not_found())?;
        Ok((found, folder))
    }

    /// An upload with all of its parts, at one moment.
    pub(super) fn upload_with_parts(&self, upload: UploadId) -> Result<Found> {
        let mut listed = self.engine.catalog.list(&upload.folder(), None, usize::MAX)?.into_iter();
        let (_, folder) = listed.next().filter(|(key, _)| *key == upload.folder()).ok_or_else(|| upload.not_found())?;
        let found = read_upload(upload, &folder)?.ok_or_else(|| upload.not_found())?;
        Ok(Found { upload: found, folder, parts: parts_in(upload, listed) })
    }
}

/// Reads an upload from its folder. `None` if it has expired, or is no upload.
fn read_upload(id: UploadId, folder: &Object) -> Result<Option<Upload>> {
    let text = folder.attributes.user.get(UPLOAD_ATTRIBUTE);
    let Some(text) = text.filter(|_| folder.id == id.0 && !folder.attributes.is_expired(now())) else {
        return Ok(None);
    };
    let damaged = |reason: String| Error::Damaged { what: record_of(id), reason };
    let record: UploadRecord = toml::from_str(text).map_err(|error| damaged(error.to_string()))?;
    let key = key::unhex(&record.key).ok_or_else(|| damaged("its key is not in hexadecimal digits".to_owned()))?;
    let UploadRecord { begun, attributes, .. } = record;
    Ok(Some(Upload { id, key, begun, expiry: folder.attributes.expiry(), attributes }))
}

fn record_of(id: UploadId) -> String {
    format!("the record of upload {id}")
}

fn parts_in(upload: UploadId, listed: impl IntoIterator<Item = (Vec<u8>, Object)>) -> Vec<UploadPart> {
    let part = |(key, object): (Vec<u8>, Object)| Some(UploadPart { number: upload.number_of(&key)?, object });
    listed.into_iter().filter_map(part).collect()
}
