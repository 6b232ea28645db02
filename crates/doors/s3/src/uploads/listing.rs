//! Lists uploads and their parts: `ListMultipartUploads`, `ListParts`.

use s3s::S3Result;
use s3s::dto::{
    ChecksumType, CommonPrefix, Initiator, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListPartsInput,
    ListPartsOutput, MultipartUpload, Part, StorageClass,
};
use terrace::key::KeySpace;
use terrace::{Attributes, Error, Store, Upload, UploadPart};

use super::checksum::UploadChecksum;
use super::find;
use crate::bucket_folder::{BucketFolder, OWNER_NAME, owner};
use crate::checksums::{self, give_checksum};
use crate::conditions::{etag, last_modified};
use crate::described::STORAGE_CLASS;
use crate::name_form::{NameForm, limit_names};
use crate::refusal::refused;
use crate::wishes::STANDARD_CLASS;

pub fn list_parts(store: &Store, input: &ListPartsInput) -> S3Result<ListPartsOutput> {
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let upload = find(store, &bucket, &input.key, &input.upload_id)?;
    let limit = limit_names(input.max_parts)?;
    let marker = input.part_number_marker.unwrap_or_default();
    let count = usize::try_from(limit).unwrap_or_default();
    let after = u32::try_from(marker).ok().filter(|number| *number > 0);
    let mut found = store.list_parts(upload.id, after, count + 1).map_err(refused)?;
    let is_truncated = found.len() > count;
    found.truncate(count);
    let part = |part: &UploadPart| {
        let mut listed = Part {
            part_number: Some(part.number.try_into().unwrap_or(i32::MAX)),
            e_tag: Some(etag(&part.object)),
            last_modified: Some(last_modified(&part.object.attributes)),
            size: Some(part.object.length.try_into().unwrap_or(i64::MAX)),
            ..Part::default()
        };
        give_checksum!(listed, checksums::fields(&part.object.attributes));
        listed
    };
    let parts: Vec<Part> = found.iter().map(part).collect();
    let checksum = UploadChecksum::read(upload.attributes.as_ref());
    Ok(ListPartsOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(input.upload_id.clone()),
        part_number_marker: Some(marker),
        next_part_number_marker: if is_truncated { parts.last().and_then(|part| part.part_number) } else { None },
        max_parts: Some(limit),
        is_truncated: Some(is_truncated),
        parts: Some(parts),
        initiator: Some(initiator()),
        owner: Some(owner()),
        storage_class: Some(class(&upload)),
        checksum_algorithm: checksum.map(|checksum| checksum.kind.algorithm()),
        checksum_type: checksum.map(|checksum| ChecksumType::from_static(checksum.way())),
        ..ListPartsOutput::default()
    })
}

fn initiator() -> Initiator {
    Initiator { display_name: Some(OWNER_NAME.to_owned()), id: Some(OWNER_NAME.to_owned()) }
}

fn class(upload: &Upload) -> StorageClass {
    let named = upload.attributes.as_ref().and_then(|attributes| attributes.user.get(STORAGE_CLASS));
    StorageClass::from(named.cloned().unwrap_or_else(|| STANDARD_CLASS.to_owned()))
}

/// The uploads to objects of a bucket whose names begin with `prefix`, each with its name, in order.
fn of_bucket(store: &Store, space: &KeySpace, prefix: &[u8]) -> S3Result<Vec<(Vec<u8>, Upload)>> {
    let below = [space.folder(), b"/"].concat();
    let uploads = store.list_uploads(&below).map_err(refused)?;
    let named = uploads.into_iter().filter_map(|upload| Some((space.name(&upload.key)?, upload)));
    Ok(named.filter(|(name, _)| name.starts_with(prefix)).collect())
}

pub fn list(store: &Store, input: &ListMultipartUploadsInput) -> S3Result<ListMultipartUploadsOutput> {
    let (form, limit) = (NameForm::new(input.encoding_type.as_ref())?, limit_names(input.max_uploads)?);
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let prefix = input.prefix.as_deref().unwrap_or_default().as_bytes();
    let delimiter = input.delimiter.as_deref().unwrap_or_default();
    let key_marker = input.key_marker.as_deref().unwrap_or_default().as_bytes();
    // The upload's own marker counts only beside that of a name.
    let id_marker = input.upload_id_marker.as_deref().filter(|_| !key_marker.is_empty()).unwrap_or_default();
    let (mut uploads, mut prefixes) = (Vec::new(), Vec::new());
    let mut last = None;
    let mut is_truncated = false;
    for (name, upload) in of_bucket(store, &bucket.space, prefix)? {
        let id = upload.id.to_string();
        let common = common_prefix(&name, prefix.len(), delimiter.as_bytes());
        let follows = match (&common, id_marker) {
            (Some(common), _) => common.as_slice() > key_marker,
            (None, "") => name.as_slice() > key_marker || key_marker.is_empty(),
            (None, marker) => (name.as_slice(), id.as_str()) > (key_marker, marker),
        };
        if !follows || common.as_ref().is_some_and(|common| prefixes.last() == Some(common)) {
            continue;
        }
        if uploads.len() + prefixes.len() >= usize::try_from(limit).unwrap_or_default() {
            is_truncated = limit > 0;
            break;
        }
        match common {
            Some(common) => {
                last = Some((common.clone(), String::new()));
                prefixes.push(common);
            }
            None => {
                last = Some((name.clone(), id.clone()));
                uploads.push(listed(&name, &upload, id, form));
            }
        }
    }
    let (next_key_marker, next_upload_id_marker) = match last.filter(|_| is_truncated) {
        Some((name, id)) => (Some(form.format(&name)), Some(id)),
        None => (None, None),
    };
    Ok(ListMultipartUploadsOutput {
        bucket: Some(input.bucket.clone()),
        prefix: form.format_given(input.prefix.as_ref()),
        delimiter: form.format_given(input.delimiter.as_ref()),
        key_marker: Some(form.format(key_marker)),
        upload_id_marker: Some(input.upload_id_marker.clone().unwrap_or_default()),
        next_key_marker,
        next_upload_id_marker,
        max_uploads: Some(limit),
        is_truncated: Some(is_truncated),
        uploads: Some(uploads),
        common_prefixes: Some(
            prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(form.format(prefix)) }).collect(),
        ),
        encoding_type: input.encoding_type.clone(),
        ..ListMultipartUploadsOutput::default()
    })
}

fn common_prefix(name: &[u8], prefix: usize, delimiter: &[u8]) -> Option<Vec<u8>> {
    if delimiter.is_empty() {
        return None;
    }
    let at = name.get(prefix..)?.windows(delimiter.len()).position(|bytes| bytes == delimiter)?;
    name.get(..prefix + at + delimiter.len()).map(<[u8]>::to_vec)
}

fn listed(name: &[u8], upload: &Upload, id: String, form: NameForm) -> MultipartUpload {
    let begun = Attributes { mtime: upload.begun, ..Attributes::default() };
    let checksum = UploadChecksum::read(upload.attributes.as_ref());
    MultipartUpload {
        key: Some(form.format(name)),
        upload_id: Some(id),
        initiated: Some(last_modified(&begun)),
        initiator: Some(initiator()),
        owner: Some(owner()),
        storage_class: Some(class(upload)),
        checksum_algorithm: checksum.map(|checksum| checksum.kind.algorithm()),
        checksum_type: checksum.map(|checksum| ChecksumType::from_static(checksum.way())),
    }
}

/// Aborts all uploads to a bucket.
pub fn abort_all(store: &Store, space: &KeySpace) -> S3Result<()> {
    for (_, upload) in of_bucket(store, space, b"")? {
        match store.abort_upload(upload.id) {
            Ok(()) | Err(Error::NoUpload { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(())
}
