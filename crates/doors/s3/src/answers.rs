//! [`Answers`]: which function answers which request. All other requests get the error `NotImplemented` of `s3s`.

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CopyObjectInput, CopyObjectOutput, CreateBucketInput, CreateBucketOutput, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput, DeleteBucketTaggingInput,
    DeleteBucketTaggingOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectTaggingInput,
    DeleteObjectTaggingOutput, DeleteObjectsInput, DeleteObjectsOutput, GetBucketLocationInput,
    GetBucketLocationOutput, GetBucketTaggingInput, GetBucketTaggingOutput, GetBucketVersioningInput,
    GetBucketVersioningOutput, GetObjectInput, GetObjectOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput,
    ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectVersionsInput, ListObjectVersionsOutput,
    ListObjectsInput, ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput,
    PostObjectInput, PostObjectOutput, PutBucketTaggingInput, PutBucketTaggingOutput, PutObjectInput, PutObjectOutput,
    PutObjectTaggingInput, PutObjectTaggingOutput, UploadPartCopyInput, UploadPartCopyOutput, UploadPartInput,
    UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use terrace::Store;

use crate::bucket_folder::BucketFolder;
use crate::refusal::blocking;
use crate::unsupported::{refuse_bucket, refuse_version};
use crate::{buckets, copying, deleting, listing, reading, tags, uploads, writing};

/// Answers requests by calls of the engine.
pub struct Answers {
    store: Store,
}

impl Answers {
    pub fn new(store: &Store) -> Answers {
        Answers { store: store.clone() }
    }

    /// Answers a request on a thread that may wait.
    async fn answer<I: Send + 'static, O: Send + 'static>(
        &self,
        request: S3Request<I>,
        answer: impl FnOnce(&Store, I) -> S3Result<O> + Send + 'static,
    ) -> S3Result<S3Response<O>> {
        let (store, input) = (self.store.clone(), request.input);
        blocking(move || answer(&store, input)).await.map(S3Response::new)
    }
}

/// Methods that answer on a thread that may wait: each request, its types, and the function.
macro_rules! answered {
    ($($method:ident($input:ident) -> $output:ident = $answer:expr;)*) => {
        #[async_trait::async_trait]
        impl S3 for Answers {
            $(
                async fn $method(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    self.answer(request, $answer).await
                }
            )*

            async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
                refuse_version(request.input.version_id.as_deref())?;
                reading::get(self.store.clone(), request.input).await.map(S3Response::new)
            }

            async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
                writing::put(self.store.clone(), request).await.map(S3Response::new)
            }

            async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
                uploads::put_part(self.store.clone(), request).await.map(S3Response::new)
            }

            /// A form is held in memory as a whole, and any page in a browser can send one.
            async fn post_object(&self, _: S3Request<PostObjectInput>) -> S3Result<S3Response<PostObjectOutput>> {
                Err(s3_error!(NotImplemented, "this server takes no forms; use PutObject"))
            }
        }
    };
}

answered! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = |store, input| buckets::list(store, &input);
    create_bucket(CreateBucketInput) -> CreateBucketOutput = |store, input| {
        refuse_bucket(&input)?;
        buckets::create(store, &input)
    };
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = |store, input| {
        buckets::delete(store, &input.bucket)?;
        Ok(DeleteBucketOutput::default())
    };
    head_bucket(HeadBucketInput) -> HeadBucketOutput = |store, input| buckets::head(store, &input.bucket);
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = |store, input| {
        buckets::location(store, &input.bucket)
    };
    // Objects have one version each, as in a bucket whose versioning was never enabled.
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = |store, input| {
        BucketFolder::find(store, &input.bucket)?;
        Ok(GetBucketVersioningOutput::default())
    };
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = |store, input| {
        Ok(GetBucketTaggingOutput { tag_set: tags::of_bucket(store, &input.bucket)? })
    };
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = |store, input| {
        tags::set_of_bucket(store, &input.bucket, &input.tagging.tag_set)?;
        Ok(PutBucketTaggingOutput::default())
    };
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = |store, input| {
        tags::set_of_bucket(store, &input.bucket, &[])?;
        Ok(DeleteBucketTaggingOutput::default())
    };
    list_objects(ListObjectsInput) -> ListObjectsOutput = |store, input| listing::list(store, &input);
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = |store, input| listing::list_v2(store, &input);
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = |store, input| {
        listing::list_versions(store, &input)
    };
    head_object(HeadObjectInput) -> HeadObjectOutput = |store, input| {
        refuse_version(input.version_id.as_deref())?;
        reading::head(store, input)
    };
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = |store, input| {
        deleting::delete(store, input)?;
        Ok(DeleteObjectOutput::default())
    };
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = deleting::delete_all;
    copy_object(CopyObjectInput) -> CopyObjectOutput = |store, input| copying::copy(store, &input);
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = |store, input| {
        refuse_version(input.version_id.as_deref())?;
        let tag_set = tags::of_object(store, &input.bucket, &input.key)?;
        Ok(GetObjectTaggingOutput { tag_set, version_id: None })
    };
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = |store, input| {
        refuse_version(input.version_id.as_deref())?;
        tags::set_of_object(store, &input.bucket, &input.key, &input.tagging.tag_set)?;
        Ok(PutObjectTaggingOutput::default())
    };
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = |store, input| {
        refuse_version(input.version_id.as_deref())?;
        tags::set_of_object(store, &input.bucket, &input.key, &[])?;
        Ok(DeleteObjectTaggingOutput::default())
    };
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = |store, input| {
        uploads::create(store, &input)
    };
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = |store, input| uploads::copy_part(store, &input);
    list_parts(ListPartsInput) -> ListPartsOutput = |store, input| uploads::list_parts(store, &input);
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = |store, input| {
        uploads::list(store, &input)
    };
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = |store, input| {
        uploads::complete(store, &input)
    };
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = |store, input| {
        uploads::abort(store, &input)?;
        Ok(AbortMultipartUploadOutput::default())
    };
}
