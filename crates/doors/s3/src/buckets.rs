//! Buckets: folders at the top of the store, each a key space.

use s3s::dto::{
    Bucket, CreateBucketInput, CreateBucketOutput, GetBucketLocationOutput, HeadBucketOutput, ListBucketsInput,
    ListBucketsOutput,
};
use s3s::validation::{AwsNameValidation, NameValidation};
use s3s::{S3Result, s3_error};
use terrace::catalog::NameListing;
use terrace::key::KeyRule;
use terrace::{Attributes, Error, Object, Store};

use crate::bucket_folder::{BucketFolder, owner};
use crate::conditions::last_modified;
use crate::refusal::refused;
use crate::uploads;

/// The region of all buckets. Clients that name none use this one.
pub const BUCKET_REGION: &str = "us-east-1";
/// Most buckets in one answer, if the client names no number.
const MAX_BUCKETS: usize = 10_000;

pub fn list(store: &Store, wanted: &ListBucketsInput) -> S3Result<ListBucketsOutput> {
    let limit = wanted.max_buckets.and_then(|limit| limit.try_into().ok()).unwrap_or(MAX_BUCKETS).max(1);
    let mut folders = store.top_key_spaces().map_err(refused)?;
    folders.retain(|folder| {
        let name = folder.name.as_slice();
        let follows = wanted.continuation_token.as_ref().is_none_or(|last| name > last.as_bytes());
        // A name that is no text cannot stand in a request.
        follows && str::from_utf8(name).is_ok_and(|name| name.starts_with(wanted.prefix.as_deref().unwrap_or_default()))
    });
    let buckets: Vec<Bucket> = folders
        .iter()
        .take(limit)
        .map(|folder| Bucket {
            name: Some(String::from_utf8_lossy(&folder.name).into_owned()),
            creation_date: Some(last_modified(&created(folder.object.as_ref()))),
            bucket_region: Some(BUCKET_REGION.to_owned()),
        })
        .collect();
    let continuation_token =
        if folders.len() > limit { buckets.last().and_then(|bucket| bucket.name.clone()) } else { None };
    Ok(ListBucketsOutput {
        buckets: Some(buckets),
        owner: Some(owner()),
        continuation_token,
        prefix: wanted.prefix.clone(),
    })
}

/// The attributes of a folder. One without an object has no time; clients want some.
fn created(folder: Option<&Object>) -> Attributes {
    folder.map(|folder| folder.attributes.clone()).unwrap_or_default()
}

pub fn create(store: &Store, wanted: &CreateBucketInput) -> S3Result<CreateBucketOutput> {
    let name = &wanted.bucket;
    if !AwsNameValidation::new().validate_bucket_name(name) {
        return Err(s3_error!(InvalidBucketName, "a new bucket has 3 to 63 small letters, digits, dots and dashes"));
    }
    match store.make_key_space(name.as_bytes(), KeyRule::Flat) {
        Ok(_) => Ok(CreateBucketOutput { location: Some(format!("/{name}")) }),
        Err(Error::Conflict { .. }) if BucketFolder::find(store, name).is_ok() => {
            Err(s3_error!(BucketAlreadyOwnedByYou, "the store has a folder {:?} at its top", name))
        }
        Err(error) => Err(refused(error)),
    }
}

/// Deletes an empty bucket, and aborts the uploads to it.
pub fn delete(store: &Store, name: &str) -> S3Result<()> {
    let not_empty = || s3_error!(BucketNotEmpty, "something is below the folder {:?}; remove it first", name);
    let bucket = BucketFolder::find(store, name)?;
    let first = NameListing { limit: 1, ..NameListing::default() };
    if !store.list_names(&bucket.space, &first).map_err(refused)?.names.is_empty() {
        return Err(not_empty());
    }
    uploads::abort_all(store, &bucket.space)?;
    store.remove_key_space(&bucket.space).map_err(|error| match error {
        Error::Conflict { .. } => not_empty(),
        Error::NotFound { .. } => s3_error!(NoSuchBucket, "the store has no folder {:?} at its top any more", name),
        error => refused(error),
    })
}

pub fn head(store: &Store, name: &str) -> S3Result<HeadBucketOutput> {
    BucketFolder::find(store, name)?;
    Ok(HeadBucketOutput { bucket_region: Some(BUCKET_REGION.to_owned()), ..HeadBucketOutput::default() })
}

/// The location of a bucket in the region that has no name.
pub fn location(store: &Store, name: &str) -> S3Result<GetBucketLocationOutput> {
    BucketFolder::find(store, name)?;
    Ok(GetBucketLocationOutput::default())
}
