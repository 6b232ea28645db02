//! Refuses what the server does not have, so that no client takes it for done.

use s3s::dto::{CopyObjectInput, CreateBucketInput, CreateMultipartUploadInput, PutObjectInput};
use s3s::{S3Result, s3_error};

/// The version of objects that have no others.
pub const ONLY_VERSION: &str = "null";

/// The access lists that say what holds anyway: those whom the server knows may do everything, others nothing.
const USUAL_ACCESS: [&str; 2] = ["private", "bucket-owner-full-control"];

/// Refuses headers that ask for something else than is done.
macro_rules! refuse_headers {
    ($input:expr) => {{
        let input = $input;
        let has_access = input.acl.as_ref().is_some_and(|acl| !USUAL_ACCESS.contains(&acl.as_str()))
            || input.grant_full_control.is_some()
            || input.grant_read.is_some()
            || input.grant_read_acp.is_some()
            || input.grant_write_acp.is_some();
        let is_encrypted = input.server_side_encryption.is_some()
            || input.sse_customer_algorithm.is_some()
            || input.sse_customer_key.is_some()
            || input.ssekms_key_id.is_some();
        let is_locked = input.object_lock_mode.is_some()
            || input.object_lock_legal_hold_status.is_some()
            || input.object_lock_retain_until_date.is_some();
        refuse_if(has_access, "access lists")?;
        refuse_if(is_encrypted, "encryption")?;
        refuse_if(is_locked, "object locks")
    }};
}

fn refuse_if(is_asked: bool, what: &str) -> S3Result<()> {
    match is_asked {
        true => Err(s3_error!(NotImplemented, "this server has no {}", what)),
        false => Ok(()),
    }
}

pub fn refuse_put(input: &PutObjectInput) -> S3Result<()> {
    refuse_if(input.write_offset_bytes.is_some(), "appends to objects")?;
    refuse_headers!(input)
}

pub fn refuse_copy(input: &CopyObjectInput) -> S3Result<()> {
    refuse_if(input.copy_source_sse_customer_algorithm.is_some(), "encryption")?;
    refuse_headers!(input)
}

pub fn refuse_upload(input: &CreateMultipartUploadInput) -> S3Result<()> {
    refuse_headers!(input)
}

pub fn refuse_bucket(input: &CreateBucketInput) -> S3Result<()> {
    let has_access = input.acl.as_ref().is_some_and(|acl| !USUAL_ACCESS.contains(&acl.as_str()))
        || input.grant_full_control.is_some()
        || input.grant_read.is_some()
        || input.grant_read_acp.is_some()
        || input.grant_write.is_some()
        || input.grant_write_acp.is_some();
    refuse_if(has_access, "access lists")?;
    refuse_if(input.object_lock_enabled_for_bucket.unwrap_or_default(), "object locks")
}

/// An object has one version.
pub fn refuse_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some(ONLY_VERSION) => Ok(()),
        Some(version) => {
            Err(s3_error!(NoSuchVersion, "there is no version {}; objects have one, which is null", version))
        }
    }
}
