//! The engine's errors as those of S3.

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode};
use terrace::Error;

/// The code for a store without space. S3 itself is never full; clients repeat 503, but not this.
const NO_SPACE_CODE: &str = "InsufficientStorage";

/// The error of S3 that tells a client what the engine said.
pub fn refused(error: Error) -> S3Error {
    let code = match error {
        Error::NotFound { .. } => S3ErrorCode::NoSuchKey,
        Error::BadKey { .. } => S3ErrorCode::InvalidArgument,
        Error::KeyTooLong { .. } => S3ErrorCode::KeyTooLongError,
        Error::TooLarge { .. } => S3ErrorCode::EntityTooLarge,
        Error::Reserved { .. } | Error::ReadOnlyOrigin { .. } => S3ErrorCode::AccessDenied,
        Error::ChangedAtOrigin { .. } => S3ErrorCode::OperationAborted,
        Error::Origin { .. } => S3ErrorCode::ServiceUnavailable,
        Error::Conflict { .. } => S3ErrorCode::OperationAborted,
        Error::NoUpload { .. } => S3ErrorCode::NoSuchUpload,
        Error::BadPart { .. } => S3ErrorCode::InvalidPart,
        // Only a client's wishes are read here, so they are what is wrong.
        Error::Config(_) => S3ErrorCode::InvalidArgument,
        Error::Stale | Error::SharedLog { .. } => S3ErrorCode::ServiceUnavailable,
        Error::NoSpace { .. } => {
            let mut full = S3Error::with_message(S3ErrorCode::Custom(NO_SPACE_CODE.into()), error.to_string());
            full.set_status_code(StatusCode::INSUFFICIENT_STORAGE);
            return full;
        }
        _ => {
            tracing::warn!(%error, "a request of S3 failed");
            S3ErrorCode::InternalError
        }
    };
    S3Error::with_message(code, error.to_string())
}

/// Like [`refused`], for a request about an object: a name that no object can have names none.
pub fn refused_name(error: Error) -> S3Error {
    match error {
        Error::BadKey { .. } => S3Error::with_message(S3ErrorCode::NoSuchKey, error.to_string()),
        error => refused(error),
    }
}

/// Runs calls of the engine, which may wait, on a thread for such calls.
pub async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, S3Error> + Send + 'static,
) -> Result<T, S3Error> {
    match tokio::task::spawn_blocking(call).await {
        Ok(done) => done,
        Err(panicked) => Err(S3Error::internal_error(panicked)),
    }
}
