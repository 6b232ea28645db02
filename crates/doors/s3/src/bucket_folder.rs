//! [`BucketFolder`]: the folder of a bucket, and the objects in it.

use s3s::dto::Owner;
use s3s::validation::NameValidation;
use s3s::{S3Result, s3_error};
use terrace::catalog::Expect;
use terrace::key::{KeyRule, KeySpace};
use terrace::{Error, Object, Store};

use crate::refusal::{refused, refused_name};

/// Everybody whom the server knows owns everything.
pub const OWNER_NAME: &str = "terrace";

/// The folder of a bucket, as it was when the request came.
pub struct BucketFolder {
    pub space: KeySpace,
    /// The folder's object. None if the folder exists only as a part of longer keys.
    pub folder: Option<Object>,
}

impl BucketFolder {
    /// Finds a bucket.
    pub fn find(store: &Store, name: &str) -> S3Result<BucketFolder> {
        let missing = || s3_error!(NoSuchBucket, "the store has no folder {:?} at its top", name);
        let space = store.key_space(name.as_bytes()).map_err(|error| match error {
            Error::NotFound { .. } | Error::BadKey { .. } | Error::Conflict { .. } => missing(),
            error => refused(error),
        })?;
        match store.stat(name.as_bytes()) {
            Ok(folder) => Ok(BucketFolder { space, folder: Some(folder) }),
            Err(Error::NotFound { .. }) => Ok(BucketFolder { space, folder: None }),
            Err(error) => Err(refused(error)),
        }
    }

    /// Finds an object of the bucket.
    pub fn object(&self, store: &Store, name: &str) -> S3Result<Object> {
        store.stat_name(&self.space, name.as_bytes()).map_err(refused_name)
    }

    /// The condition that the bucket is still there. Without it, a name could come into a folder that has no rule any more.
    pub fn expect(&self) -> Vec<Expect> {
        let names = |folder: &Object| Expect::Names(self.space.folder().to_vec(), folder.id);
        self.folder.as_ref().map(names).into_iter().collect()
    }
}

/// Names of buckets in requests. Each folder at the top is a bucket, whatever its name.
pub struct FolderNames;

impl NameValidation for FolderNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.starts_with(".terrace") && !name.contains('/') && KeySpace::new(name.as_bytes(), KeyRule::Paths).is_ok()
    }
}

pub fn owner() -> Owner {
    Owner { display_name: Some(OWNER_NAME.to_owned()), id: Some(OWNER_NAME.to_owned()) }
}
