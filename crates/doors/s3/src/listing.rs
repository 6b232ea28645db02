//! Lists objects by prefix and delimiter: `ListObjects`, version 1 and 2, and `ListObjectVersions`.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::dto::{
    CommonPrefix, ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object as Listed, ObjectVersion,
};
use s3s::{S3Result, s3_error};
use terrace::catalog::{NameListing, NamePage};
use terrace::{Object, Store};

use crate::bucket_folder::{BucketFolder, owner};
use crate::checksums;
use crate::conditions::{etag, last_modified};
use crate::name_form::{NameForm, limit_names};
use crate::refusal::refused;
use crate::unsupported::ONLY_VERSION;
use crate::wishes::class_of;

fn page(
    store: &Store,
    bucket: &str,
    prefix: Option<&str>,
    delimiter: Option<&str>,
    after: Option<&[u8]>,
    limit: i32,
) -> S3Result<NamePage> {
    let space = BucketFolder::find(store, bucket)?.space;
    let (prefix, delimiter) = (prefix.unwrap_or_default().as_bytes(), delimiter.unwrap_or_default().as_bytes());
    let listing = NameListing { prefix, delimiter, after, limit: limit.try_into().unwrap_or_default() };
    store.list_names(&space, &listing).map_err(refused)
}

/// The names in an answer of ListObjects or ListObjectsV2.
struct Page {
    contents: Vec<Listed>,
    common_prefixes: Vec<CommonPrefix>,
}

impl Page {
    fn new(page: &NamePage, form: NameForm, shows_owner: bool) -> Page {
        let listed = |(name, object): &(Vec<u8>, Object)| {
            let (kind, checksum) = match checksums::stored(&object.attributes) {
                Some((kind, _)) => (checksums::fields(&object.attributes).checksum_type, Some(vec![kind.algorithm()])),
                None => (None, None),
            };
            Listed {
                key: Some(form.format(name)),
                e_tag: Some(etag(object)),
                last_modified: Some(last_modified(&object.attributes)),
                size: Some(size(object)),
                storage_class: Some(class_of(object).into()),
                owner: shows_owner.then(owner),
                checksum_algorithm: checksum,
                checksum_type: kind,
                restore_status: None,
            }
        };
        Page { contents: page.names.iter().map(listed).collect(), common_prefixes: prefixes(page, form) }
    }
}

fn prefixes(page: &NamePage, form: NameForm) -> Vec<CommonPrefix> {
    page.common_prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(form.format(prefix)) }).collect()
}

fn size(object: &Object) -> i64 {
    object.length.try_into().unwrap_or(i64::MAX)
}

pub fn list(store: &Store, input: &ListObjectsInput) -> S3Result<ListObjectsOutput> {
    let (form, limit) = (NameForm::new(input.encoding_type.as_ref())?, limit_names(input.max_keys)?);
    let (prefix, delimiter) = (input.prefix.as_deref(), input.delimiter.as_deref());
    let found = page(store, &input.bucket, prefix, delimiter, input.marker.as_ref().map(String::as_bytes), limit)?;
    let listed = Page::new(&found, form, true);
    // S3 sends the next marker only with a delimiter. Without one, clients go on after the last key.
    let has_delimiter = delimiter.is_some_and(|delimiter| !delimiter.is_empty());
    Ok(ListObjectsOutput {
        name: Some(input.bucket.clone()),
        prefix: Some(form.format(prefix.unwrap_or_default().as_bytes())),
        marker: Some(form.format(input.marker.as_deref().unwrap_or_default().as_bytes())),
        max_keys: Some(limit),
        is_truncated: Some(found.next.is_some()),
        contents: Some(listed.contents),
        common_prefixes: Some(listed.common_prefixes),
        delimiter: form.format_given(input.delimiter.as_ref()),
        next_marker: found.next.filter(|_| has_delimiter).map(|next| form.format(&next)),
        encoding_type: input.encoding_type.clone(),
        request_charged: None,
    })
}

pub fn list_v2(store: &Store, input: &ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
    let (form, limit) = (NameForm::new(input.encoding_type.as_ref())?, limit_names(input.max_keys)?);
    let (prefix, delimiter) = (input.prefix.as_deref(), input.delimiter.as_deref());
    let wrong = || s3_error!(InvalidArgument, "this server did not issue the continuation token");
    // A token is the last name of the page before, in base64, since names may have any bytes.
    let token = |token: &String| BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong());
    let last = input.continuation_token.as_ref().map(token).transpose()?;
    let after = last.as_deref().or(input.start_after.as_ref().map(String::as_bytes));
    let found = page(store, &input.bucket, prefix, delimiter, after, limit)?;
    let listed = Page::new(&found, form, input.fetch_owner.unwrap_or_default());
    Ok(ListObjectsV2Output {
        name: Some(input.bucket.clone()),
        prefix: Some(form.format(prefix.unwrap_or_default().as_bytes())),
        max_keys: Some(limit),
        key_count: Some((listed.contents.len() + listed.common_prefixes.len()).try_into().unwrap_or(i32::MAX)),
        continuation_token: input.continuation_token.clone(),
        is_truncated: Some(found.next.is_some()),
        next_continuation_token: found.next.map(|next| BASE64_URL_SAFE_NO_PAD.encode(next)),
        contents: Some(listed.contents),
        common_prefixes: Some(listed.common_prefixes),
        delimiter: form.format_given(input.delimiter.as_ref()),
        encoding_type: input.encoding_type.clone(),
        start_after: form.format_given(input.start_after.as_ref()),
        request_charged: None,
    })
}

/// Lists objects, each with its only version.
pub fn list_versions(store: &Store, input: &ListObjectVersionsInput) -> S3Result<ListObjectVersionsOutput> {
    let (form, limit) = (NameForm::new(input.encoding_type.as_ref())?, limit_names(input.max_keys)?);
    let (prefix, delimiter) = (input.prefix.as_deref(), input.delimiter.as_deref());
    let found = page(store, &input.bucket, prefix, delimiter, input.key_marker.as_ref().map(String::as_bytes), limit)?;
    let version = |(name, object): &(Vec<u8>, Object)| ObjectVersion {
        key: Some(form.format(name)),
        version_id: Some(ONLY_VERSION.to_owned()),
        is_latest: Some(true),
        e_tag: Some(etag(object)),
        last_modified: Some(last_modified(&object.attributes)),
        size: Some(size(object)),
        storage_class: Some(class_of(object).into()),
        owner: Some(owner()),
        ..ObjectVersion::default()
    };
    Ok(ListObjectVersionsOutput {
        name: Some(input.bucket.clone()),
        prefix: Some(form.format(prefix.unwrap_or_default().as_bytes())),
        delimiter: form.format_given(input.delimiter.as_ref()),
        key_marker: Some(form.format(input.key_marker.as_deref().unwrap_or_default().as_bytes())),
        version_id_marker: Some(input.version_id_marker.clone().unwrap_or_default()),
        max_keys: Some(limit),
        is_truncated: Some(found.next.is_some()),
        versions: Some(found.names.iter().map(version).collect()),
        common_prefixes: Some(prefixes(&found, form)),
        next_key_marker: found.next.as_ref().map(|next| form.format(next)),
        next_version_id_marker: found.next.as_ref().map(|_| ONLY_VERSION.to_owned()),
        encoding_type: input.encoding_type.clone(),
        ..ListObjectVersionsOutput::default()
    })
}
