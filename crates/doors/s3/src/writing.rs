//! Writes objects: `PutObject`.

use std::cell::OnceCell;

use s3s::dto::{ETag, PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Result};
use terrace::{Attributes, PutOptions, Store};

use crate::body::{BodyReader, store_body};
use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, ChecksumKind, give_checksum};
use crate::described::described_by;
use crate::digesting::{Announced, Digesting, Digests, announced_by};
use crate::new_object;
use crate::refusal::{blocking, refused};
use crate::replaced::Replaced;
use crate::unsupported::refuse_put;

pub async fn put(store: Store, mut request: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
    let announced = announced_by!(request)?;
    let input = &mut request.input;
    refuse_put(input)?;
    let (body, described) = (input.body.take(), described_by!(input));
    let options = new_object::options(&described, input.storage_class.as_ref(), input.tagging.as_deref())?;
    let replaced = Replaced { if_match: input.if_match.take(), if_none_match: input.if_none_match.take() };
    let target = Target { store, bucket: input.bucket.clone(), name: input.key.clone(), replaced, options };
    // A request that cannot succeed is refused before its body comes.
    let target = blocking(move || target.expect()).await?;
    store_body(body, move |body| target.put(body, announced)).await
}

/// An object that is to be written.
struct Target {
    store: Store,
    bucket: String,
    name: String,
    replaced: Replaced,
    options: PutOptions,
}

impl Target {
    /// Looks at the bucket and at the object that is there, and takes both as conditions.
    fn expect(mut self) -> S3Result<Target> {
        let bucket = BucketFolder::find(&self.store, &self.bucket)?;
        bucket.space.key(self.name.as_bytes()).map_err(|error| refused(error.into()))?;
        self.options.expect = self.replaced.conditions(&self.store, &bucket, &self.name)?;
        Ok(self)
    }

    fn put(self, body: BodyReader, announced: Announced) -> S3Result<PutObjectOutput> {
        let bucket = BucketFolder::find(&self.store, &self.bucket)?;
        let key = bucket.space.key(self.name.as_bytes()).map_err(|error| refused(error.into()))?;
        let digests = OnceCell::new();
        let mut source = Digesting::new(body, announced, &digests);
        let mut described = Attributes::default();
        let describe = |attributes: &mut Attributes| {
            digests.get().into_iter().for_each(|digests: &Digests| digests.describe(attributes));
            described = attributes.clone();
        };
        let put = self.store.put_described(&key, &mut source, &self.options, describe);
        put.map_err(|error| source.refusal_or(|| self.replaced.refusal(&self.store, &bucket, &self.name, error)))?;
        let etag = described.digest(terrace::ETAG_DIGEST).unwrap_or_default().to_owned();
        let mut output = PutObjectOutput { e_tag: Some(ETag::Strong(etag)), ..PutObjectOutput::default() };
        let fields = checksums::fields(&described);
        output.checksum_type = fields.checksum_type.clone();
        give_checksum!(output, fields);
        Ok(output)
    }
}
