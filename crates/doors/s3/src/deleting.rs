//! Deletes objects: `DeleteObject` and `DeleteObjects`.

use s3s::dto::{
    DeleteObjectInput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ETagCondition, Error as Failure,
    Timestamp,
};
use s3s::{S3Error, S3Result, s3_error};
use terrace::{Error, Object, Store};

use crate::bucket_folder::BucketFolder;
use crate::conditions::{last_modified, matches_etag, precondition_failed};
use crate::refusal::refused;
use crate::unsupported::refuse_version;

/// How often an object is looked up again that was replaced before it was removed.
const MAX_TRIES: usize = 8;
/// Most objects that one request may name.
const MAX_DELETED_OBJECTS: usize = 1000;

/// The conditions under which an object is deleted.
struct Demand {
    etag: Option<ETagCondition>,
    size: Option<i64>,
    modified: Option<Timestamp>,
}

impl Demand {
    fn check(&self, object: &Object) -> S3Result<()> {
        let is_as_demanded = self.etag.as_ref().is_none_or(|wanted| matches_etag(wanted, object))
            && self.size.is_none_or(|size| u64::try_from(size) == Ok(object.length))
            && self.modified.as_ref().is_none_or(|time| *time == last_modified(&object.attributes));
        if is_as_demanded { Ok(()) } else { Err(precondition_failed()) }
    }
}

pub fn delete(store: &Store, input: DeleteObjectInput) -> S3Result<()> {
    refuse_version(input.version_id.as_deref())?;
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let demand =
        Demand { etag: input.if_match, size: input.if_match_size, modified: input.if_match_last_modified_time };
    remove(store, &bucket, &input.key, &demand)
}

/// Removes an object if it is as demanded. One that is not there has gone already.
fn remove(store: &Store, bucket: &BucketFolder, name: &str, demand: &Demand) -> S3Result<()> {
    for _ in 0..MAX_TRIES {
        let object = match store.stat_name(&bucket.space, name.as_bytes()) {
            Ok(object) => object,
            Err(Error::NotFound { .. } | Error::BadKey { .. }) => return Ok(()),
            Err(error) => return Err(refused(error)),
        };
        demand.check(&object)?;
        let key = bucket.space.key(name.as_bytes()).map_err(|error| refused(error.into()))?;
        let mut batch = store.batch();
        // The object was looked at; another one may be a directory, or not as the request's conditions say.
        batch.unchanged(&key, &object);
        batch.remove(&key);
        match batch.commit() {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Err(s3_error!(OperationAborted, "the object is replaced all the time; delete it again"))
}

pub fn delete_all(store: &Store, input: DeleteObjectsInput) -> S3Result<DeleteObjectsOutput> {
    if input.delete.objects.len() > MAX_DELETED_OBJECTS {
        return Err(s3_error!(MalformedXML, "a request deletes at most 1000 objects"));
    }
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    let is_at_once = remove_at_once(store, &bucket, &input)?;
    for object in input.delete.objects {
        let etag = object.e_tag.map(ETagCondition::ETag);
        let demand = Demand { etag, size: object.size, modified: object.last_modified_time };
        let done = match refuse_version(object.version_id.as_deref()) {
            Ok(()) if is_at_once => Ok(()),
            Ok(()) => remove(store, &bucket, &object.key, &demand),
            Err(refusal) => Err(refusal),
        };
        match done {
            Ok(()) => deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() }),
            Err(error) => errors.push(failure(object.key, &error)),
        }
    }
    let deleted = (!input.delete.quiet.unwrap_or_default()).then_some(deleted);
    Ok(DeleteObjectsOutput { deleted, errors: (!errors.is_empty()).then_some(errors), request_charged: None })
}

fn failure(key: String, error: &S3Error) -> Failure {
    Failure {
        key: Some(key),
        code: Some(error.code().as_str().to_owned()),
        message: error.message().map(str::to_owned),
        version_id: None,
    }
}

/// Removes all objects in one commit, as long as nobody changes one of them, and no condition is to be checked.
fn remove_at_once(store: &Store, bucket: &BucketFolder, input: &DeleteObjectsInput) -> S3Result<bool> {
    let mut batch = store.batch();
    for wanted in &input.delete.objects {
        let has_demand = wanted.e_tag.is_some() || wanted.size.is_some() || wanted.last_modified_time.is_some();
        if has_demand || wanted.version_id.is_some() {
            return Ok(false);
        }
        match store.stat_name(&bucket.space, wanted.key.as_bytes()) {
            Ok(object) => {
                let key = bucket.space.key(wanted.key.as_bytes()).map_err(|error| refused(error.into()))?;
                batch.unchanged(&key, &object);
                batch.remove(&key);
            }
            Err(Error::NotFound { .. } | Error::BadKey { .. }) => {}
            Err(_) => return Ok(false),
        }
    }
    match batch.commit() {
        Ok(_) => Ok(true),
        // Each is removed by itself then, as is one that is named twice, and those that may be removed beside files of an origin.
        Err(Error::Conflict { .. } | Error::NotFound { .. } | Error::ReadOnlyOrigin { .. }) => Ok(false),
        Err(error) => Err(refused(error)),
    }
}
