//! Uploads of several parts, by the engine's uploads. The object shares the frames of the parts.

mod checksum;
mod completing;
mod copied_part;
mod listing;
mod named_parts;
mod part;

pub use completing::complete;
pub use copied_part::copy_part;
pub use listing::{abort_all, list, list_parts};
pub use part::put_part;

use s3s::S3Result;
use s3s::dto::{AbortMultipartUploadInput, ChecksumType, CreateMultipartUploadInput, CreateMultipartUploadOutput};
use terrace::{Attributes, Error, Store, Upload, UploadId};

use crate::bucket_folder::BucketFolder;
use crate::described::{self, described_by};
use crate::new_object;
use crate::refusal::{refused, refused_name};
use crate::unsupported::refuse_upload;
use checksum::{UPLOAD_CHECKSUM, UploadChecksum};

pub fn create(store: &Store, input: &CreateMultipartUploadInput) -> S3Result<CreateMultipartUploadOutput> {
    refuse_upload(input)?;
    let described = described_by!(input);
    let mut options = new_object::options(&described, input.storage_class.as_ref(), input.tagging.as_deref())?;
    let checksum = UploadChecksum::new(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let asked = checksum.map(|checksum| format!("{} {}", checksum.kind.name(), checksum.way()));
    described::set(options.attributes.get_or_insert_with(Attributes::now), UPLOAD_CHECKSUM, asked);
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let key = bucket.space.key(input.key.as_bytes()).map_err(|error| refused(error.into()))?;
    let upload = store.begin_upload(&key, &options, None).map_err(refused)?;
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        upload_id: Some(upload.to_string()),
        checksum_algorithm: checksum.map(|checksum| checksum.kind.algorithm()),
        checksum_type: checksum.map(|checksum| ChecksumType::from_static(checksum.way())),
        ..CreateMultipartUploadOutput::default()
    })
}

pub fn abort(store: &Store, input: &AbortMultipartUploadInput) -> S3Result<()> {
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let upload = find(store, &bucket, &input.key, &input.upload_id)?;
    store.abort_upload(upload.id).map_err(refused)
}

/// Finds an upload to an object of a bucket.
fn find(store: &Store, bucket: &BucketFolder, name: &str, upload: &str) -> S3Result<Upload> {
    let no_upload = || refused(Error::NoUpload { upload: upload.to_owned() });
    let id = upload.parse::<UploadId>().map_err(|_| no_upload())?;
    let found = store.upload(id).map_err(refused)?;
    let key = bucket.space.key(name.as_bytes()).map_err(|error| refused_name(error.into()))?;
    if found.key == key { Ok(found) } else { Err(no_upload()) }
}
