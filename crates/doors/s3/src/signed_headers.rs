//! Refuses headers that a request's signature does not cover.

use hyper::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

/// The headers that say what a request does.
const MEANING_PREFIX: &str = "x-amz-";
/// The signature depends on these, whether or not it lists them.
const ALWAYS_SIGNED: [&str; 2] = ["x-amz-content-sha256", "x-amz-date"];

/// Lets a request pass if a known client has signed it, with all headers that say what it does: otherwise everybody who gets a presigned
/// address could add such a header, for example one that copies another object.
pub struct SignedHeaders;

#[async_trait::async_trait]
impl S3Access for SignedHeaders {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "sign the request with a key that this server knows"));
        }
        match find_unsigned(context.headers(), context.uri()) {
            Some(name) => {
                Err(s3_error!(AccessDenied, "the signature does not cover the header {name}; sign it, or leave it out"))
            }
            None => Ok(()),
        }
    }
}

/// Returns a header that the signature does not cover. Version 2 of the signature covers all.
fn find_unsigned(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let header = headers.get("authorization").and_then(|value| value.to_str().ok());
    let signed = match header {
        Some(value) => value.split([',', ' ']).find_map(|part| part.strip_prefix("SignedHeaders=")).map(str::to_owned),
        None => uri
            .query()?
            .split('&')
            .filter_map(|option| option.split_once('='))
            .find(|(name, _)| name.eq_ignore_ascii_case("x-amz-signedheaders"))
            .map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned()),
    }?;
    let is_signed = |name: &str| signed.split(';').any(|signed| signed.eq_ignore_ascii_case(name));
    let names = headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with(MEANING_PREFIX));
    names.filter(|name| !ALWAYS_SIGNED.contains(name)).find(|name| !is_signed(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_means_something_is_signed() {
        let unsigned = |authorization: Option<&str>, query: &str, more: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in authorization.map(|value| ("authorization", value)).iter().chain(more) {
                headers.insert(*name, value.parse().expect("is a value"));
            }
            find_unsigned(&headers, &format!("/bucket/key{query}").parse().expect("is a URI"))
        };
        let copy = ("x-amz-copy-source", "/bucket/secret");
        let url = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host";
        assert_eq!(unsigned(None, url, &[copy]).as_deref(), Some("x-amz-copy-source"));
        assert_eq!(unsigned(None, &format!("{url}%3Bx-amz-copy-source"), &[copy]), None);
        assert_eq!(unsigned(None, url, &[("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("range", "bytes=0-1")]), None);
        let header = |names: &str| {
            format!("AWS4-HMAC-SHA256 Credential=a/1/b/s3/aws4_request, SignedHeaders={names}, Signature=0")
        };
        let tagged = ("x-amz-tagging", "a=b");
        assert_eq!(unsigned(Some(&header("host;x-amz-date")), "", &[tagged]).as_deref(), Some("x-amz-tagging"));
        assert_eq!(unsigned(Some(&header("host;x-amz-date;x-amz-tagging")), "", &[tagged]), None);
        assert_eq!(unsigned(Some("AWS a:signature"), "", &[tagged]), None, "version 2 covers all");
    }
}
