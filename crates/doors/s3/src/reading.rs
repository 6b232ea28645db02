//! Reads objects: `GetObject` and `HeadObject`.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use s3s::dto::{ChecksumMode, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, StreamingBlob};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3Result, StdError, s3_error};
use terrace::{Handle, Object, Store};

use crate::bucket_folder::BucketFolder;
use crate::checksums::{self, give_checksum};
use crate::conditions::{Conditions, etag, last_modified};
use crate::described::Described;
use crate::part_lengths::{part_count, part_range};
use crate::refusal::{blocking, refused, refused_name};
use crate::tags;
use crate::wishes::{STANDARD_CLASS, class_of};

/// Bytes that are read at once. Up to this length no handle is needed, which would be a commit.
const STEP_BYTES: u64 = 1 << 20;
/// Steps that are read before the client has taken them.
const STEPS_AHEAD: usize = 2;
/// How often an object is looked up again that was replaced before its bytes were read.
const MAX_TRIES: usize = 8;

/// The conditions and the choice of a request that reads.
struct Wanted {
    conditions: Conditions,
    range: Option<s3s::dto::Range>,
    part: Option<i32>,
}

/// The chosen bytes of an object.
struct Chosen {
    range: Range<u64>,
    /// Whether the request chose them, so that the answer says which they are.
    is_partial: bool,
    parts_count: Option<i32>,
}

impl Wanted {
    fn choose(&self, object: &Object) -> S3Result<Chosen> {
        self.conditions.check(object)?;
        let whole = 0..object.length;
        let parts_count = part_count(object);
        match (self.range, self.part) {
            (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "a request names a range or a part, not both")),
            (Some(range), None) => {
                let no_bytes = || s3_error!(InvalidRange, "the object has {} bytes", object.length);
                let range = range.check(object.length).map_err(|_| no_bytes())?;
                Ok(Chosen { range, is_partial: true, parts_count: None })
            }
            (None, Some(number)) => {
                let range = part_range(object, number)?;
                Ok(Chosen { range, is_partial: true, parts_count })
            }
            (None, None) => Ok(Chosen { range: whole, is_partial: false, parts_count: None }),
        }
    }
}

impl Chosen {
    fn length(&self) -> i64 {
        self.range.end.saturating_sub(self.range.start).try_into().unwrap_or(i64::MAX)
    }

    fn content_range(&self, object: &Object) -> Option<String> {
        let is_shown = self.is_partial && !self.range.is_empty();
        is_shown.then(|| format!("bytes {}-{}/{}", self.range.start, self.range.end - 1, object.length))
    }

    /// The checksum is that of the whole object, so it is no part's.
    fn shows_checksum(&self, mode: Option<&ChecksumMode>, object: &Object) -> bool {
        let is_whole = self.range == (0..object.length);
        is_whole && mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED)
    }
}

/// Gives an answer what S3 knows of the object.
macro_rules! give_description {
    ($output:expr, $object:expr) => {{
        let object: &Object = $object;
        let described = Described::read(&object.attributes);
        $output.accept_ranges = Some("bytes".to_owned());
        $output.cache_control = described.cache_control;
        $output.content_disposition = described.content_disposition;
        $output.content_encoding = described.content_encoding;
        $output.content_language = described.content_language;
        $output.content_type = described.content_type.or_else(|| Some("binary/octet-stream".to_owned()));
        $output.expires = described.expires;
        $output.website_redirect_location = described.redirect_location;
        $output.metadata = described.metadata;
        $output.e_tag = Some(etag(object));
        $output.last_modified = Some(last_modified(&object.attributes));
        let class = class_of(object);
        // The usual class is left out, as S3 does.
        $output.storage_class = (class != STANDARD_CLASS).then(|| class.into());
    }};
}

/// Takes what a read asks for out of its input. The inputs of a read and of a look have the same fields and no common type.
macro_rules! wanted_by {
    ($input:expr) => {
        Wanted {
            conditions: Conditions {
                if_match: $input.if_match,
                if_none_match: $input.if_none_match,
                if_modified_since: $input.if_modified_since,
                if_unmodified_since: $input.if_unmodified_since,
            },
            range: $input.range,
            part: $input.part_number,
        }
    };
}

pub fn head(store: &Store, input: HeadObjectInput) -> S3Result<HeadObjectOutput> {
    let wanted = wanted_by!(input);
    let bucket = BucketFolder::find(store, &input.bucket)?;
    let object = bucket.object(store, &input.key)?;
    let chosen = wanted.choose(&object)?;
    let mut output = HeadObjectOutput::default();
    give_description!(output, &object);
    output.content_length = Some(chosen.length());
    output.content_range = chosen.content_range(&object);
    output.parts_count = chosen.parts_count;
    if chosen.shows_checksum(input.checksum_mode.as_ref(), &object) {
        let fields = checksums::fields(&object.attributes);
        output.checksum_type = fields.checksum_type.clone();
        give_checksum!(output, fields);
    }
    Ok(output)
}

/// The chosen bytes: all of them, or a handle to read them by.
enum Found {
    Bytes(Vec<u8>),
    Handle(Box<Handle>),
}

pub async fn get(store: Store, input: GetObjectInput) -> S3Result<GetObjectOutput> {
    let wanted = wanted_by!(input);
    let (bucket, key) = (input.bucket, input.key);
    let (object, chosen, found) = blocking(move || open(&store, &bucket, &key, &wanted)).await?;
    let mut output = GetObjectOutput::default();
    give_description!(output, &object);
    output.content_length = Some(chosen.length());
    output.content_range = chosen.content_range(&object);
    output.parts_count = chosen.parts_count;
    output.tag_count = tags::count(&object.attributes);
    if chosen.shows_checksum(input.checksum_mode.as_ref(), &object) {
        let fields = checksums::fields(&object.attributes);
        output.checksum_type = fields.checksum_type.clone();
        give_checksum!(output, fields);
    }
    output.body = Some(match found {
        Found::Bytes(bytes) => StreamingBlob::from(s3s::Body::from(bytes)),
        Found::Handle(handle) => stream_bytes(*handle, chosen.range),
    });
    Ok(output)
}

/// Finds an object and its chosen bytes, all of one version.
fn open(store: &Store, bucket: &str, name: &str, wanted: &Wanted) -> S3Result<(Object, Chosen, Found)> {
    let bucket = BucketFolder::find(store, bucket)?;
    let key = bucket.space.key(name.as_bytes()).map_err(|error| refused_name(error.into()))?;
    for _ in 0..MAX_TRIES {
        let object = bucket.object(store, name)?;
        let chosen = wanted.choose(&object)?;
        let length = chosen.range.end - chosen.range.start;
        if length > STEP_BYTES {
            let handle = store.handle(&key).map_err(refused_name)?;
            if (handle.object().id, handle.object().generation) == (object.id, object.generation) {
                return Ok((object, chosen, Found::Handle(Box::new(handle))));
            }
            continue;
        }
        let mut bytes = vec![0; length as usize];
        if store.read_unchanged(&key, &object, chosen.range.start, &mut bytes).map_err(refused)? {
            return Ok((object, chosen, Found::Bytes(bytes)));
        }
    }
    Err(s3_error!(OperationAborted, "the object is replaced all the time; read it again"))
}

/// The bytes of a range, read step by step as the client takes them. A client that stops occupies no thread.
fn stream_bytes(handle: Handle, range: Range<u64>) -> StreamingBlob {
    let length = range.end - range.start;
    let handle = Arc::new(Closing(Some(handle)));
    let starts = range.clone().step_by(STEP_BYTES as usize);
    let steps = stream::iter(starts).map(move |start| {
        let (handle, end) = (handle.clone(), range.end.min(start + STEP_BYTES));
        blocking(move || handle.read(start, end))
    });
    let bytes = steps.buffered(STEPS_AHEAD).map(|step| step.map_err(|error| Box::new(error) as StdError));
    StreamingBlob::new(SizedStream { bytes: Box::pin(bytes), left: length })
}

/// A stream that knows its length.
struct SizedStream {
    bytes: Pin<Box<dyn Stream<Item = Result<Bytes, StdError>> + Send + Sync>>,
    left: u64,
}

impl Stream for SizedStream {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.bytes.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            self.left = self.left.saturating_sub(bytes.len() as u64);
        }
        next
    }
}

impl ByteStream for SizedStream {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(self.left as usize)
    }
}

/// A handle that is closed, which is a commit, on a thread that may wait.
struct Closing(Option<Handle>);

impl Closing {
    fn read(&self, start: u64, end: u64) -> Result<Bytes, S3Error> {
        let mut bytes = vec![0; (end - start) as usize];
        let Some(handle) = &self.0 else { return Ok(Bytes::new()) };
        let read = handle.read_at(start, &mut bytes).map_err(refused)?;
        bytes.truncate(read);
        Ok(bytes.into())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let handle = self.0.take();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(handle))),
            Err(_) => drop(handle),
        }
    }
}
