//! Tags of objects and buckets: one attribute, in the form of the header `x-amz-tagging`.

use std::collections::HashSet;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use s3s::dto::{Tag, TagSet};
use s3s::{S3Result, s3_error};
use terrace::{Attributes, Error, Object, Store};

use crate::bucket_folder::BucketFolder;
use crate::described::{self, TAGS_ATTRIBUTE};
use crate::refusal::refused;

/// Limits of S3.
const MAX_OBJECT_TAGS: usize = 10;
const MAX_BUCKET_TAGS: usize = 50;
const MAX_TAG_KEY_LETTERS: usize = 128;
const MAX_TAG_VALUE_LETTERS: usize = 256;
/// How often tags are set again if the object was changed meanwhile.
const MAX_TRIES: usize = 8;

/// The attribute for a header's tags. None for none.
pub fn of_header(header: Option<&str>) -> S3Result<Option<String>> {
    let Some(header) = header else { return Ok(None) };
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let decoded = percent_decode_str(&text).decode_utf8().map(|text| text.into_owned());
        decoded.map_err(|_| s3_error!(InvalidArgument, "x-amz-tagging is not encoded as the parameters of a URL are"))
    };
    let mut tags = Vec::new();
    for pair in header.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        tags.push(Tag { key: Some(decoded(key)?), value: Some(decoded(value)?) });
    }
    encode(&tags, MAX_OBJECT_TAGS)
}

/// The attribute for tags. None for none.
fn encode(tags: &[Tag], limit: usize) -> S3Result<Option<String>> {
    if tags.len() > limit {
        return Err(s3_error!(InvalidTag, "there are {} tags; at most {} are kept", tags.len(), limit));
    }
    let mut keys = HashSet::new();
    let mut pairs = Vec::new();
    for tag in tags {
        let (key, value) = (tag.key.as_deref().unwrap_or_default(), tag.value.as_deref().unwrap_or_default());
        if key.is_empty() || key.chars().count() > MAX_TAG_KEY_LETTERS {
            return Err(s3_error!(InvalidTag, "the key of a tag has 1 to 128 letters"));
        }
        if value.chars().count() > MAX_TAG_VALUE_LETTERS {
            return Err(s3_error!(InvalidTag, "the value of a tag has at most 256 letters"));
        }
        if !keys.insert(key) {
            return Err(s3_error!(InvalidTag, "two tags have the key {:?}", key));
        }
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        pairs.push(format!("{}={}", encoded(key), encoded(value)));
    }
    Ok((!pairs.is_empty()).then(|| pairs.join("&")))
}

/// The tags in attributes.
fn read(attributes: &Attributes) -> TagSet {
    let decoded = |text: &str| Some(percent_decode_str(text).decode_utf8_lossy().into_owned());
    let pairs = attributes.user.get(TAGS_ATTRIBUTE).into_iter().flat_map(|text| text.split('&'));
    let tag = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some(Tag { key: decoded(key), value: decoded(value) })
    };
    pairs.filter_map(tag).collect()
}

/// The number of tags, for an answer that leaves out 0.
pub fn count(attributes: &Attributes) -> Option<i32> {
    let count = read(attributes).len();
    (count > 0).then(|| i32::try_from(count).unwrap_or(i32::MAX))
}

pub fn of_object(store: &Store, bucket: &str, name: &str) -> S3Result<TagSet> {
    let bucket = BucketFolder::find(store, bucket)?;
    Ok(read(&bucket.object(store, name)?.attributes))
}

/// Sets the tags of an object. No tags removes them.
pub fn set_of_object(store: &Store, bucket: &str, name: &str, tags: &[Tag]) -> S3Result<()> {
    let text = encode(tags, MAX_OBJECT_TAGS)?;
    let bucket = BucketFolder::find(store, bucket)?;
    let key = bucket.space.key(name.as_bytes()).map_err(|error| refused(error.into()))?;
    set(store, &key, text, || bucket.object(store, name))
}

pub fn of_bucket(store: &Store, bucket: &str) -> S3Result<TagSet> {
    let bucket = BucketFolder::find(store, bucket)?;
    let tags = bucket.folder.map(|folder| read(&folder.attributes)).unwrap_or_default();
    match tags.is_empty() {
        true => Err(s3_error!(NoSuchTagSet, "the bucket has no tags")),
        false => Ok(tags),
    }
}

/// Sets the tags of a bucket. No tags removes them.
pub fn set_of_bucket(store: &Store, name: &str, tags: &[Tag]) -> S3Result<()> {
    let text = encode(tags, MAX_BUCKET_TAGS)?;
    let find = || {
        let nowhere = || s3_error!(NotImplemented, "the folder has no entry of its own that could hold tags");
        BucketFolder::find(store, name)?.folder.ok_or_else(nowhere)
    };
    set(store, name.as_bytes(), text, find)
}

fn set(store: &Store, key: &[u8], text: Option<String>, find: impl Fn() -> S3Result<Object>) -> S3Result<()> {
    for _ in 0..MAX_TRIES {
        let object = find()?;
        let mut attributes = object.attributes.clone();
        described::set(&mut attributes, TAGS_ATTRIBUTE, text.clone());
        let mut batch = store.batch();
        batch.unchanged(key, &object);
        batch.set_attributes(key, attributes);
        match batch.commit() {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Err(s3_error!(OperationAborted, "it is changed all the time; set the tags again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_as_they_were() {
        let text = of_header(Some("a=1&b%26c=x+y&d")).expect("is right").expect("has tags");
        let mut attributes = Attributes::default();
        described::set(&mut attributes, TAGS_ATTRIBUTE, Some(text));
        let tags: Vec<_> = read(&attributes).into_iter().map(|tag| (tag.key.unwrap(), tag.value.unwrap())).collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(tags, [pair("a", "1"), pair("b&c", "x y"), pair("d", "")]);
        assert_eq!(count(&attributes), Some(3));
        assert_eq!(of_header(Some("")).expect("is right"), None);
        let many: Vec<String> = (0..11).map(|n| format!("k{n}=v")).collect();
        for wrong in ["a=1&a=2", "=1", &many.join("&"), &format!("a={}", "v".repeat(257)), "%ff=1"] {
            assert!(of_header(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
