//! Completes uploads: `CompleteMultipartUpload`.

use s3s::dto::{CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart, ETag};
use s3s::{S3Result, s3_error};
use terrace::{Attributes, ETAG_DIGEST, Object, PutOptions, Store, Upload, UploadPart};

use super::checksum::{UPLOAD_CHECKSUM, checksum_of_whole, without_count};
use super::find;
use super::named_parts::NamedParts;
use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, checksum_of, give_checksum};
use crate::described::{self, COMPLETED_UPLOAD};
use crate::part_lengths::{PART_LENGTHS, encode_lengths};
use crate::refusal::refused;
use crate::replaced::Replaced;

/// S3 takes no shorter part, except the last.
const MIN_PART_BYTES: u64 = 5 << 20;

pub fn complete(store: &Store, input: &CompleteMultipartUploadInput) -> S3Result<CompleteMultipartUploadOutput> {
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let none = Vec::new();
    let completed = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_ref()).unwrap_or(&none);
    let object = match find(store, &bucket, &input.key, &input.upload_id) {
        Ok(upload) => join(store, &bucket, &upload, input, completed)?,
        // The answer to an earlier request may have been lost.
        Err(no_upload) => completed_before(store, &bucket, input, completed).ok_or(no_upload)?,
    };
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        e_tag: Some(ETag::Strong(object.etag())),
        ..CompleteMultipartUploadOutput::default()
    };
    let fields = checksums::fields(&object.attributes);
    output.checksum_type = fields.checksum_type.clone();
    give_checksum!(output, fields);
    Ok(output)
}

fn completed_before(
    store: &Store,
    bucket: &BucketFolder,
    input: &CompleteMultipartUploadInput,
    completed: &[CompletedPart],
) -> Option<Object> {
    let named = NamedParts::new(completed).ok()?;
    let object = store.stat_name(&bucket.space, input.key.as_bytes()).ok()?;
    let is_made_of_it = object.attributes.user.get(COMPLETED_UPLOAD) == Some(&input.upload_id);
    (is_made_of_it && object.etag() == named.etag).then_some(object)
}

fn join(
    store: &Store,
    bucket: &BucketFolder,
    upload: &Upload,
    input: &CompleteMultipartUploadInput,
    completed: &[CompletedPart],
) -> S3Result<Object> {
    let named = NamedParts::new(completed)?;
    let all = store.list_parts(upload.id, None, usize::MAX).map_err(refused)?;
    let parts = named.find_in(&all)?;
    check_lengths(&parts, input.mpu_object_size)?;
    let checksum = checksum_of_whole(upload, &parts, completed)?;
    let wanted = checksum_of!(input);
    if let (Some((kind, sum)), Some((wanted_kind, wanted))) = (&checksum, &wanted)
        && (kind != wanted_kind || without_count(sum) != without_count(wanted))
    {
        return Err(s3_error!(BadDigest, "the object does not have the {} that the request says", wanted_kind.name()));
    }
    let replaced = Replaced { if_match: input.if_match.clone(), if_none_match: input.if_none_match.clone() };
    let expect = replaced.conditions(store, bucket, &input.key)?;
    let options = PutOptions { expect, ..PutOptions::default() };
    let lengths = encode_lengths(parts.iter().map(|part| part.object.length));
    let describe = |attributes: &mut Attributes| {
        attributes.mtime = Attributes::now().mtime;
        attributes.set_digest(ETAG_DIGEST, &named.etag);
        if let Some((kind, sum)) = &checksum {
            attributes.set_digest(kind.name(), sum);
        }
        described::set(attributes, UPLOAD_CHECKSUM, None);
        described::set(attributes, COMPLETED_UPLOAD, Some(input.upload_id.clone()));
        described::set(attributes, PART_LENGTHS, Some(lengths.clone()));
    };
    let done = store.complete_upload(upload.id, &named.parts, &options, describe);
    done.map_err(|error| replaced.refusal(store, bucket, &input.key, error))
}

fn check_lengths(parts: &[&UploadPart], wanted: Option<i64>) -> S3Result<()> {
    let (_, others) = parts.split_last().unzip();
    if let Some(short) = others.unwrap_or_default().iter().find(|part| part.object.length < MIN_PART_BYTES) {
        let (number, length) = (short.number, short.object.length);
        return Err(s3_error!(EntityTooSmall, "part {} has {} bytes; each but the last needs 5 MiB", number, length));
    }
    let length: u64 = parts.iter().map(|part| part.object.length).sum();
    match wanted {
        Some(wanted) if u64::try_from(wanted) != Ok(length) => {
            Err(s3_error!(InvalidRequest, "the parts have {} bytes, not {} as the request says", length, wanted))
        }
        _ => Ok(()),
    }
}
