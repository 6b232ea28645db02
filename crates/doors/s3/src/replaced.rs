//! [`Replaced`]: the conditions of a write.

use s3s::dto::ETagCondition;
use s3s::{S3Error, S3Result, s3_error};
use terrace::catalog::Expect;
use terrace::{Error, Object, Store, key};

use crate::bucket_folder::BucketFolder;
use crate::conditions::{matches_etag, precondition_failed};
use crate::refusal::refused;

/// The conditions of the object that a write replaces.
#[derive(Clone, Default)]
pub struct Replaced {
    pub if_match: Option<ETagCondition>,
    pub if_none_match: Option<ETagCondition>,
}

impl Replaced {
    /// The conditions of the commit, so that of several clients one succeeds.
    pub fn conditions(&self, store: &Store, bucket: &BucketFolder, name: &str) -> S3Result<Vec<Expect>> {
        let mut expect = bucket.expect();
        if self.if_match.is_none() && self.if_none_match.is_none() {
            return Ok(expect);
        }
        let key = bucket.space.key(name.as_bytes()).map_err(|error| refused(error.into()))?;
        let object = match store.stat_name(&bucket.space, name.as_bytes()) {
            Ok(object) => Some(object),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(refused(error)),
        };
        self.check(object.as_ref())?;
        match object {
            Some(object) => {
                expect.extend([Expect::Names(key.clone(), object.id), Expect::Generation(key, object.generation)])
            }
            // An expired object that is still there is in nobody's way.
            None => expect.extend(store.stat(&key).is_err().then_some(Expect::Absent(key))),
        }
        Ok(expect)
    }

    fn check(&self, object: Option<&Object>) -> S3Result<()> {
        if let Some(wanted) = &self.if_match {
            let object = object.ok_or_else(|| s3_error!(NoSuchKey, "there is no object to replace"))?;
            if !matches_etag(wanted, object) {
                return Err(precondition_failed());
            }
        }
        match (&self.if_none_match, object) {
            (Some(unwanted), Some(object)) if matches_etag(unwanted, object) => Err(precondition_failed()),
            _ => Ok(()),
        }
    }

    /// The error of a write whose commit was refused.
    pub fn refusal(&self, store: &Store, bucket: &BucketFolder, name: &str, error: Error) -> S3Error {
        let missing = match &error {
            Error::Conflict { key, .. } | Error::NotFound { key } => *key == key::show(bucket.space.folder()),
            _ => false,
        };
        if missing {
            return s3_error!(NoSuchBucket, "the bucket was deleted meanwhile");
        }
        let is_conditional = self.if_match.is_some() || self.if_none_match.is_some();
        if is_conditional && matches!(error, Error::Conflict { .. } | Error::NotFound { .. }) {
            // Either the object is no longer as wanted, or it was written again while it still is.
            let again = self.conditions(store, bucket, name).err();
            return again.unwrap_or_else(|| s3_error!(ConditionalRequestConflict, "{}", error));
        }
        refused(error)
    }
}
