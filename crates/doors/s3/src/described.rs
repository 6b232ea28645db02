//! [`Described`]: what a client says of an object beside its bytes, kept in the object's attributes.

use std::collections::BTreeMap;

use s3s::dto::{Metadata, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};
use terrace::Attributes;

/// The prefix of all attributes that are S3's.
const S3_PREFIX: &str = "s3.";
const METADATA_PREFIX: &str = "s3.meta.";
const CACHE_CONTROL: &str = "s3.cache-control";
const CONTENT_DISPOSITION: &str = "s3.content-disposition";
const CONTENT_ENCODING: &str = "s3.content-encoding";
const CONTENT_LANGUAGE: &str = "s3.content-language";
const CONTENT_TYPE: &str = "s3.content-type";
const EXPIRY_DATE: &str = "s3.expires";
const REDIRECT_LOCATION: &str = "s3.redirect-location";
/// The upload that an object was made by, so that a client which did not get the answer may ask again.
pub const COMPLETED_UPLOAD: &str = "s3.upload";
/// The class that the client named, if it was not `STANDARD`.
pub const STORAGE_CLASS: &str = "s3.storage-class";
/// The tags, as the header of a `PutObject` has them.
pub const TAGS_ATTRIBUTE: &str = "s3.tags";

/// S3 takes no more of it, in all names and values together.
const MAX_METADATA_BYTES: usize = 2 << 10;
/// The word that clients put into `Content-Encoding` for the coding of the request's own body.
const CHUNKED_CODING: &str = "aws-chunked";

/// Headers that come back with the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Described {
    pub cache_control: Option<String>,
    pub content_disposition: Option<String>,
    pub content_encoding: Option<String>,
    pub content_language: Option<String>,
    pub content_type: Option<String>,
    pub expires: Option<Timestamp>,
    pub redirect_location: Option<String>,
    pub metadata: Option<Metadata>,
}

/// Reads the headers from a request's fields.
macro_rules! described_by {
    ($input:expr) => {
        $crate::described::Described {
            cache_control: $input.cache_control.clone(),
            content_disposition: $input.content_disposition.clone(),
            content_encoding: $input.content_encoding.clone(),
            content_language: $input.content_language.clone(),
            content_type: $input.content_type.clone(),
            expires: $input.expires.clone(),
            redirect_location: $input.website_redirect_location.clone(),
            metadata: $input.metadata.clone(),
        }
    };
}

pub(crate) use described_by;

impl Described {
    /// Checks the limit of metadata.
    pub fn check(&self) -> S3Result<()> {
        let length = |metadata: &Metadata| metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        match self.metadata.as_ref().map_or(0, length) {
            0..=MAX_METADATA_BYTES => Ok(()),
            bytes => Err(s3_error!(MetadataTooLarge, "the metadata has {} bytes; at most 2048 are kept", bytes)),
        }
    }

    /// Puts the headers into attributes, in place of those that are there.
    pub fn write(&self, attributes: &mut Attributes) {
        let own = [
            (CACHE_CONTROL, self.cache_control.clone()),
            (CONTENT_DISPOSITION, self.content_disposition.clone()),
            (CONTENT_ENCODING, self.content_encoding.as_deref().and_then(without_chunked_coding)),
            (CONTENT_LANGUAGE, self.content_language.clone()),
            (CONTENT_TYPE, self.content_type.clone()),
            (EXPIRY_DATE, self.expires.as_ref().and_then(http_date)),
            (REDIRECT_LOCATION, self.redirect_location.clone()),
        ];
        attributes.user.retain(|name, _| !name.starts_with(METADATA_PREFIX) && !own.iter().any(|(own, _)| own == name));
        let given = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        attributes.user.extend(given);
        for (name, value) in self.metadata.iter().flatten() {
            attributes.user.insert(format!("{METADATA_PREFIX}{name}"), value.clone());
        }
    }

    /// Reads the headers from attributes.
    pub fn read(attributes: &Attributes) -> Described {
        let value = |name: &str| attributes.user.get(name).cloned();
        let metadata = attributes
            .user
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(METADATA_PREFIX)?.to_owned(), value.clone())));
        let metadata: BTreeMap<String, String> = metadata.collect();
        Described {
            cache_control: value(CACHE_CONTROL),
            content_disposition: value(CONTENT_DISPOSITION),
            content_encoding: value(CONTENT_ENCODING),
            content_language: value(CONTENT_LANGUAGE),
            content_type: value(CONTENT_TYPE),
            expires: value(EXPIRY_DATE).and_then(|text| Timestamp::parse(TimestampFormat::HttpDate, &text).ok()),
            redirect_location: value(REDIRECT_LOCATION),
            metadata: (!metadata.is_empty()).then(|| metadata.into_iter().collect()),
        }
    }
}

/// Sets or removes an attribute of S3.
pub fn set(attributes: &mut Attributes, name: &str, value: Option<String>) {
    debug_assert!(name.starts_with(S3_PREFIX), "{name}");
    match value {
        Some(value) => drop(attributes.user.insert(name.to_owned(), value)),
        None => drop(attributes.user.remove(name)),
    }
}

fn without_chunked_coding(codings: &str) -> Option<String> {
    let left: Vec<&str> = codings.split(',').map(str::trim).filter(|coding| !coding.is_empty()).collect();
    let left: Vec<&str> = left.into_iter().filter(|coding| !coding.eq_ignore_ascii_case(CHUNKED_CODING)).collect();
    (!left.is_empty()).then(|| left.join(", "))
}

fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_replace_older_ones() {
        let described = Described {
            content_type: Some("text/plain".to_owned()),
            content_encoding: Some("gzip".to_owned()),
            expires: Timestamp::parse(TimestampFormat::HttpDate, "Thu, 01 Dec 1994 16:00:00 GMT").ok(),
            metadata: Some([("unit".to_owned(), "K".to_owned())].into_iter().collect()),
            ..Described::default()
        };
        let mut attributes = Attributes::default();
        attributes.user.insert("other".to_owned(), "stays".to_owned());
        described.write(&mut attributes);
        assert_eq!(Described::read(&attributes), described);
        Described::default().write(&mut attributes);
        assert_eq!(attributes.user.len(), 1, "{:?}", attributes.user);
    }

    #[test]
    fn the_coding_of_the_body_is_not_that_of_the_object() {
        assert_eq!(without_chunked_coding("aws-chunked"), None);
        assert_eq!(without_chunked_coding("gzip, aws-chunked").as_deref(), Some("gzip"));
        assert_eq!(without_chunked_coding("aws-chunked,gzip , br").as_deref(), Some("gzip, br"));
    }
}
