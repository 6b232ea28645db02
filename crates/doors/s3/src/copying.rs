//! Copies objects: `CopyObject`. The copy shares the frames of the first.

use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective, TaggingDirective};
use s3s::{S3Result, s3_error};
use terrace::{Attributes, Error, Object, PutOptions, Store};

use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, give_checksum};
use crate::conditions::{Conditions, etag, last_modified};
use crate::copy_source::source_of;
use crate::described::{self, COMPLETED_UPLOAD, Described, STORAGE_CLASS, TAGS_ATTRIBUTE, described_by};
use crate::refusal::{refused, refused_name};
use crate::replaced::Replaced;
use crate::unsupported::refuse_copy;
use crate::{tags, wishes};

/// The attributes that the copy gets.
struct Change {
    described: Option<Described>,
    tags: Option<Option<String>>,
    class: Option<String>,
}

impl Change {
    fn apply(&self, attributes: &mut Attributes) {
        if let Some(described) = &self.described {
            described.write(attributes);
        }
        if let Some(tags) = &self.tags {
            described::set(attributes, TAGS_ATTRIBUTE, tags.clone());
        }
        described::set(attributes, STORAGE_CLASS, self.class.clone());
        described::set(attributes, COMPLETED_UPLOAD, None);
        attributes.mtime = Attributes::now().mtime;
    }
}

pub fn copy(store: &Store, input: &CopyObjectInput) -> S3Result<CopyObjectOutput> {
    refuse_copy(input)?;
    let (source_bucket, source_name) = source_of(&input.copy_source)?;
    let replaces = input.metadata_directive.as_ref().is_some_and(|way| way.as_str() == MetadataDirective::REPLACE);
    let replaces_tags = input.tagging_directive.as_ref().is_some_and(|way| way.as_str() == TaggingDirective::REPLACE);
    let described = replaces.then(|| described_by!(input));
    described.as_ref().map_or(Ok(()), Described::check)?;
    // A class that is no requirement is refused here, too. The copy's frames are those of the source, so it changes nothing else.
    wishes::options(input.metadata.as_ref(), input.storage_class.as_ref())?;
    let change = Change {
        described,
        tags: replaces_tags.then(|| tags::of_header(input.tagging.as_deref())).transpose()?,
        class: wishes::named_class(input.storage_class.as_ref()).map(str::to_owned),
    };
    let (from, to) = (BucketFolder::find(store, source_bucket)?, BucketFolder::find(store, &input.bucket)?);
    let object = from.object(store, source_name)?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.clone(),
        if_none_match: input.copy_source_if_none_match.clone(),
        if_modified_since: input.copy_source_if_modified_since.clone(),
        if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
    };
    conditions.check_source(&object)?;
    let from_key = from.space.key(source_name.as_bytes()).map_err(|error| refused_name(error.into()))?;
    let to_key = to.space.key(input.key.as_bytes()).map_err(|error| refused(error.into()))?;
    let copied = if from_key == to_key {
        if !replaces && !replaces_tags && input.storage_class.is_none() {
            return Err(s3_error!(InvalidRequest, "a copy onto itself must change metadata, tags or storage class"));
        }
        describe_again(store, &to_key, &object, &change)?
    } else {
        let options = PutOptions { expect: to.expect(), ..PutOptions::default() };
        let copied = store.copy_described(&from_key, &to_key, &options, |attributes| change.apply(attributes));
        copied.map_err(|error| Replaced::default().refusal(store, &to, &input.key, error))?
    };
    let mut result = CopyObjectResult {
        e_tag: Some(etag(&copied)),
        last_modified: Some(last_modified(&copied.attributes)),
        ..CopyObjectResult::default()
    };
    let fields = checksums::fields(&copied.attributes);
    result.checksum_type = fields.checksum_type.clone();
    give_checksum!(result, fields);
    Ok(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() })
}

/// Changes the attributes of an object that is copied onto itself.
fn describe_again(store: &Store, key: &[u8], object: &Object, change: &Change) -> S3Result<Object> {
    let mut attributes = object.attributes.clone();
    change.apply(&mut attributes);
    let mut batch = store.batch();
    batch.unchanged(key, object);
    batch.set_attributes(key, attributes);
    batch.commit().map_err(|error| match error {
        Error::Conflict { .. } | Error::NotFound { .. } => {
            s3_error!(OperationAborted, "the object was changed meanwhile; copy it again")
        }
        error => refused(error),
    })?;
    store.stat(key).map_err(refused)
}
