//! Checks that a server that answers with a part of a blob has taken the part that was asked for.

use http::header::{CONTENT_RANGE, HeaderName, RANGE};
use http::{HeaderMap, Request, Response, StatusCode};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};

/// A transport that refuses other parts. OpenDAL compares their lengths only.
#[derive(Default)]
pub struct CheckedRanges(HttpTransporter);

impl HttpTransport for CheckedRanges {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let wanted = find_start(request.headers(), RANGE, "bytes=");
        let answer = self.0.fetch(request).await?;
        let told = find_start(answer.headers(), CONTENT_RANGE, "bytes ");
        match (wanted, told) {
            (Some(wanted), Some(told)) if wanted != told && answer.status() == StatusCode::PARTIAL_CONTENT => {
                let reason =
                    format!("the server answers a request for the bytes from {wanted} on with those from {told} on");
                Err(Error::new(ErrorKind::Unexpected, reason))
            }
            _ => Ok(answer),
        }
    }
}

/// Returns the offset with which a range begins, such as 5 for `bytes=5-9`.
fn find_start(headers: &HeaderMap, name: HeaderName, unit: &str) -> Option<u64> {
    let (start, _) = headers.get(name)?.to_str().ok()?.strip_prefix(unit)?.split_once('-')?;
    start.parse().ok()
}
