//! Writes parts: `UploadPart`.

use std::cell::OnceCell;

use s3s::dto::{UploadPartInput, UploadPartOutput};
use s3s::{S3Request, S3Result};
use terrace::{Attributes, PutOptions, Store};

use super::checksum::UploadChecksum;
use super::find;
use crate::body::store_body;
use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, ChecksumKind, give_checksum};
use crate::conditions::etag;
use crate::digesting::{Digesting, Digests, announced_by};
use crate::part_lengths::part_number;
use crate::refusal::{blocking, refused};

pub async fn put_part(store: Store, mut request: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
    let announced = announced_by!(request)?;
    let body = request.input.body.take();
    let input = request.input;
    let number = part_number(input.part_number)?;
    let find = move || {
        let upload = find(&store, &BucketFolder::find(&store, &input.bucket)?, &input.key, &input.upload_id)?;
        Ok((store, upload))
    };
    let (store, upload) = blocking(find).await?;
    // If the upload has a checksum, each part needs it, whether the client sends it or not.
    let kind = UploadChecksum::read(upload.attributes.as_ref()).map(|checksum| checksum.kind);
    let announced = announced.or_compute(kind);
    store_body(body, move |body| {
        let digests = OnceCell::new();
        let mut source = Digesting::new(body, announced, &digests);
        let describe = |attributes: &mut Attributes| {
            digests.get().into_iter().for_each(|digests: &Digests| digests.describe(attributes));
        };
        let put = store.put_part(upload.id, number, &mut source, &PutOptions::default(), describe);
        let part = put.map_err(|error| source.refusal_or(|| refused(error)))?;
        let mut output = UploadPartOutput { e_tag: Some(etag(&part.object)), ..UploadPartOutput::default() };
        give_checksum!(output, checksums::fields(&part.object.attributes));
        Ok(output)
    })
    .await
}
