//! The source of a copy.

use s3s::dto::CopySource;
use s3s::{S3Result, s3_error};

use crate::unsupported::refuse_version;

/// Bucket and name of the source that a header names.
pub fn source_of(source: &CopySource) -> S3Result<(&str, &str)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            refuse_version(version_id.as_deref())?;
            Ok((bucket, key))
        }
        _ => Err(s3_error!(NotImplemented, "a source is written as /BUCKET/NAME")),
    }
}
