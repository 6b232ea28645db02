//! Copies ranges of objects as parts: `UploadPartCopy`.

use std::cell::OnceCell;
use std::io::{self, Read};
use std::ops::Range;

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{CopyPartResult, Range as CopyRange, UploadPartCopyInput, UploadPartCopyOutput};
use s3s::{S3Result, s3_error};
use terrace::{Attributes, ETAG_DIGEST, Handle, PutOptions, Store};

use super::checksum::UploadChecksum;
use super::find;
use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, Hasher, give_checksum};
use crate::conditions::{Conditions, etag, last_modified};
use crate::copy_source::source_of;
use crate::digesting::hex;
use crate::part_lengths::part_number;
use crate::refusal::{refused, refused_name};

/// The bytes of a range of an object, as it was when the handle was made.
struct HandleReader {
    handle: Handle,
    range: Range<u64>,
}

impl Read for HandleReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = (self.range.end - self.range.start).min(out.len() as u64) as usize;
        let read = self.handle.read_at(self.range.start, &mut out[..length]).map_err(io::Error::other)?;
        self.range.start += read as u64;
        Ok(read)
    }
}

/// Computes digests of bytes that are the server's own.
struct Hashing<'a, R> {
    source: R,
    md5: Md5,
    hasher: Option<Hasher>,
    sums: &'a OnceCell<(String, Option<String>)>,
}

impl<R: Read> Read for Hashing<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(out)?;
        self.md5.update(&out[..length]);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&out[..length]);
        }
        if length == 0 && !out.is_empty() {
            let md5 = std::mem::take(&mut self.md5).finalize();
            // The end may be read twice; the first time counts.
            let _ = self.sums.set((hex(&md5), self.hasher.take().map(Hasher::finish)));
        }
        Ok(length)
    }
}

pub fn copy_part(store: &Store, input: &UploadPartCopyInput) -> S3Result<UploadPartCopyOutput> {
    let number = part_number(input.part_number)?;
    let (source_bucket, source_name) = source_of(&input.copy_source)?;
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let upload = find(store, &bucket, &input.key, &input.upload_id)?;
    let from = BucketFolder::find(store, source_bucket)?;
    from.object(store, source_name)?;
    let key = from.space.key(source_name.as_bytes()).map_err(|error| refused_name(error.into()))?;
    let handle = store.handle(&key).map_err(refused_name)?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.clone(),
        if_none_match: input.copy_source_if_none_match.clone(),
        if_modified_since: input.copy_source_if_modified_since.clone(),
        if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
    };
    conditions.check_source(handle.object())?;
    let length = handle.object().length;
    let range = match &input.copy_source_range {
        None => 0..length,
        Some(text) => whole_range(text, length)?,
    };
    let kind = UploadChecksum::read(upload.attributes.as_ref()).map(|checksum| checksum.kind);
    let sums = OnceCell::new();
    let reader = HandleReader { handle, range };
    let source = Hashing { source: reader, md5: Md5::new(), hasher: kind.map(Hasher::new), sums: &sums };
    let describe = |attributes: &mut Attributes| {
        let Some((md5, sum)) = sums.get() else { return };
        attributes.set_digest(ETAG_DIGEST, md5);
        if let (Some(kind), Some(sum)) = (kind, sum) {
            attributes.set_digest(kind.name(), sum);
        }
    };
    let part = store.put_part(upload.id, number, source, &PutOptions::default(), describe).map_err(refused)?;
    let mut result = CopyPartResult {
        e_tag: Some(etag(&part.object)),
        last_modified: Some(last_modified(&part.object.attributes)),
        ..CopyPartResult::default()
    };
    give_checksum!(result, checksums::fields(&part.object.attributes));
    Ok(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() })
}

/// A range, all within the object.
fn whole_range(text: &str, length: u64) -> S3Result<Range<u64>> {
    match CopyRange::parse(text) {
        Ok(CopyRange::Int { first, last: Some(last) }) if first <= last && last < length => Ok(first..last + 1),
        Ok(CopyRange::Int { last: Some(_), .. }) => {
            Err(s3_error!(InvalidRange, "the object has {} bytes, which {:?} is not within", length, text))
        }
        _ => Err(s3_error!(InvalidArgument, "write a range as bytes=FIRST-LAST")),
    }
}
