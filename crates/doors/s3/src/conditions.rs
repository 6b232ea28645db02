//! [`Conditions`]: the headers that make a request depend on the object.

use std::time::{Duration, SystemTime};

use hyper::header::{ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use s3s::dto::{ETag, ETagCondition, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use terrace::{Attributes, Object};

/// The conditions of a request.
#[derive(Default)]
pub struct Conditions {
    pub if_match: Option<ETagCondition>,
    pub if_none_match: Option<ETagCondition>,
    pub if_modified_since: Option<Timestamp>,
    pub if_unmodified_since: Option<Timestamp>,
}

impl Conditions {
    /// Checks the conditions of a request that reads. The order is that of RFC 9110, section 13.2.2.
    pub fn check(&self, object: &Object) -> S3Result<()> {
        let modified = last_modified(&object.attributes);
        let (matches, changed_since) = match (&self.if_match, &self.if_unmodified_since) {
            (Some(wanted), _) => (matches_etag(wanted, object), false),
            (None, Some(time)) => (true, modified > *time),
            (None, None) => (true, false),
        };
        if !matches || changed_since {
            return Err(precondition_failed());
        }
        let is_known = match (&self.if_none_match, &self.if_modified_since) {
            (Some(known), _) => matches_etag(known, object),
            (None, Some(time)) => modified <= *time,
            (None, None) => false,
        };
        if is_known { Err(not_modified(object)) } else { Ok(()) }
    }

    /// Checks the conditions on the source of a copy. Whichever fails, the error is the same.
    pub fn check_source(&self, object: &Object) -> S3Result<()> {
        self.check(object).map_err(|_| precondition_failed())
    }
}

/// Whether a condition (an ETag or `*`) matches the object.
pub fn matches_etag(wanted: &ETagCondition, object: &Object) -> bool {
    match wanted {
        ETagCondition::Any => true,
        ETagCondition::ETag(tag) => tag.value() == object.etag(),
    }
}

/// The ETag of an object.
pub fn etag(object: &Object) -> ETag {
    ETag::Strong(object.etag())
}

/// When the bytes or attributes were written, in whole seconds: HTTP's headers have no fractions, and the time that a client sends back must
/// equal this one.
pub fn last_modified(attributes: &Attributes) -> Timestamp {
    let seconds = u64::try_from(attributes.mtime).unwrap_or(0) / 1_000_000_000;
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

pub fn precondition_failed() -> S3Error {
    s3_error!(PreconditionFailed, "the object is not as the request's conditions say")
}

fn not_modified(object: &Object) -> S3Error {
    let mut headers = HeaderMap::new();
    if let Ok(tag) = etag(object).to_http_header() {
        headers.insert(ETAG, tag);
    }
    let mut time = Vec::new();
    if last_modified(&object.attributes).format(TimestampFormat::HttpDate, &mut time).is_ok()
        && let Ok(time) = HeaderValue::from_bytes(&time)
    {
        headers.insert(LAST_MODIFIED, time);
    }
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(etag: &str, second: u64) -> Object {
        let mut attributes = Attributes { mtime: second as i64 * 1_000_000_000 + 5, ..Attributes::default() };
        attributes.set_digest(terrace::ETAG_DIGEST, etag);
        Object { id: 1, generation: 1, length: 1, want: 1, attributes, extents_in_record: None }
    }

    fn at(second: u64) -> Option<Timestamp> {
        Some(Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(second)))
    }

    #[test]
    fn an_etag_decides_before_a_time() {
        let tag = |text: &str| Some(ETagCondition::ETag(ETag::Strong(text.to_owned())));
        let code = |conditions: Conditions| {
            conditions.check(&object("a", 100)).err().map(|error| error.code().as_str().to_owned())
        };
        let (failed, known) = (Some("PreconditionFailed".to_owned()), Some("NotModified".to_owned()));
        assert_eq!(code(Conditions { if_match: tag("b"), ..Conditions::default() }), failed);
        assert_eq!(code(Conditions { if_unmodified_since: at(99), ..Conditions::default() }), failed);
        assert_eq!(code(Conditions { if_unmodified_since: at(100), ..Conditions::default() }), None);
        assert_eq!(code(Conditions { if_match: tag("a"), if_unmodified_since: at(1), ..Conditions::default() }), None);
        assert_eq!(code(Conditions { if_none_match: tag("a"), ..Conditions::default() }), known);
        assert_eq!(code(Conditions { if_modified_since: at(100), ..Conditions::default() }), known);
        assert_eq!(code(Conditions { if_modified_since: at(99), ..Conditions::default() }), None);
        let changed = Conditions { if_none_match: tag("b"), if_modified_since: at(200), ..Conditions::default() };
        assert_eq!(code(changed), None);
    }
}
