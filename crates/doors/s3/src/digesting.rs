//! [`Digesting`]: computes the digests of a body while it is stored, and refuses one that is not as its headers say.

use std::cell::OnceCell;
use std::io::{self, Read};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderMap;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Error, S3Result, TrailingHeaders, s3_error};
use terrace::{Attributes, ETAG_DIGEST};

use crate::body::BodyReader;
use crate::checksums::{ChecksumKind, Hasher};

/// The header that names the checksum behind the body.
const TRAILER_HEADER: &str = "x-amz-trailer";
/// The header that says how the body is signed.
const BODY_SIGNATURE_HEADER: &str = "x-amz-content-sha256";

/// The length and the digests of a body, as its request announces them.
pub struct Announced {
    length: Option<u64>,
    md5: Option<Vec<u8>>,
    /// The kind of checksum, and its value if that does not come behind the body.
    checksum: Option<(ChecksumKind, Option<String>)>,
    trailers: Option<TrailingHeaders>,
}

/// Reads what a request says of its body.
macro_rules! announced_by {
    ($request:expr) => {{
        let input = &$request.input;
        let wanted = input.checksum_algorithm.as_ref().and_then(|kind| ChecksumKind::named(kind.as_str()));
        let (md5, trailers) = (input.content_md5.as_deref(), $request.trailing_headers.clone());
        let checksum = $crate::checksums::checksum_of!(input);
        let announced =
            $crate::digesting::Announced::new(&$request.headers, input.content_length, md5, checksum, trailers);
        announced.map(|announced| announced.or_compute(wanted))
    }};
}

pub(crate) use announced_by;

impl Announced {
    /// Of headers, and of the fields in which `s3s` has found some of them.
    pub fn new(
        headers: &HeaderMap,
        length: Option<i64>,
        md5: Option<&str>,
        checksum: Option<(ChecksumKind, String)>,
        trailers: Option<TrailingHeaders>,
    ) -> S3Result<Announced> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if trailers.is_none() && header(BODY_SIGNATURE_HEADER).starts_with("STREAMING-") {
            // `s3s` takes the chunks of signed requests apart, and leaves others as they are.
            return Err(s3_error!(
                NotImplemented,
                "a chunked body needs a signed request; start the server with --keys"
            ));
        }
        let md5 = md5.map(|text| BASE64_STANDARD.decode(text).ok().filter(|md5| md5.len() == 16));
        let md5 = md5.map(|md5| md5.ok_or_else(|| s3_error!(InvalidDigest, "Content-MD5 is no MD5"))).transpose()?;
        let behind = header(TRAILER_HEADER).split(',').find_map(|name| ChecksumKind::of_header(name.trim()));
        let checksum = checksum.map(|(kind, value)| (kind, Some(value))).or(behind.map(|kind| (kind, None)));
        // The checksum must come if it was announced.
        let trailers = trailers.filter(|_| behind.is_some());
        Ok(Announced { length: length.and_then(|length| length.try_into().ok()), md5, checksum, trailers })
    }

    /// Lets a checksum be computed even if the client sends none.
    pub fn or_compute(mut self, kind: Option<ChecksumKind>) -> Announced {
        self.checksum = self.checksum.or(kind.map(|kind| (kind, None)));
        self
    }
}

/// The digests of a body.
pub struct Digests {
    md5: [u8; 16],
    checksum: Option<(ChecksumKind, String)>,
}

impl Digests {
    /// Makes them the digests of the object that has the bytes.
    pub fn describe(&self, attributes: &mut Attributes) {
        attributes.set_digest(ETAG_DIGEST, &hex(&self.md5));
        if let Some((kind, value)) = &self.checksum {
            attributes.set_digest(kind.name(), value);
        }
    }
}

/// The digits of an MD5.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A body whose digests are computed while it is read. It ends only if it is as announced.
pub struct Digesting<'a> {
    body: BodyReader,
    announced: Announced,
    length: u64,
    /// None after the end.
    hashers: Option<(Md5, Option<Hasher>)>,
    digests: &'a OnceCell<Digests>,
    refusal: Option<S3Error>,
}

impl<'a> Digesting<'a> {
    /// `digests` gets the digests at the end of the body.
    pub fn new(body: BodyReader, announced: Announced, digests: &'a OnceCell<Digests>) -> Digesting<'a> {
        let hasher = announced.checksum.as_ref().map(|(kind, _)| Hasher::new(*kind));
        Digesting { body, announced, length: 0, hashers: Some((Md5::new(), hasher)), digests, refusal: None }
    }

    /// The error for a request whose body could not be stored.
    pub fn refusal_or(&mut self, otherwise: impl FnOnce() -> S3Error) -> S3Error {
        self.refusal.take().or_else(|| self.body.take_refusal()).unwrap_or_else(otherwise)
    }

    /// Compares the digests with those that the request has.
    fn finish(&mut self) -> S3Result<()> {
        let Some((md5, hasher)) = self.hashers.take() else { return Ok(()) };
        let Announced { length, md5: wanted_md5, checksum, trailers } = &self.announced;
        if length.is_some_and(|length| length != self.length) {
            return Err(s3_error!(IncompleteBody, "the body has {} bytes, not as many as announced", self.length));
        }
        let md5 = md5.finalize();
        if wanted_md5.as_deref().is_some_and(|wanted| wanted != md5) {
            return Err(s3_error!(BadDigest, "the body does not have the MD5 that the request says"));
        }
        let mut found = None;
        if let (Some((kind, value)), Some(hasher)) = (checksum, hasher) {
            let sum = hasher.finish();
            let behind = trailers.as_ref().map(|trailers| read_trailer(trailers, *kind)).transpose()?;
            if value.as_ref().or(behind.as_ref()).is_some_and(|wanted| *wanted != sum) {
                return Err(s3_error!(BadDigest, "the body does not have the {} that the request says", kind.name()));
            }
            found = Some((*kind, sum));
        }
        // It is set once: the hashers are there only once.
        let _ = self.digests.set(Digests { md5, checksum: found });
        Ok(())
    }
}

fn read_trailer(trailers: &TrailingHeaders, kind: ChecksumKind) -> S3Result<String> {
    let read = trailers.read(|headers| Some(headers.get(kind.header())?.to_str().ok()?.to_owned()));
    let missing =
        || s3_error!(InvalidRequest, "the {} that x-amz-trailer announces does not follow the body", kind.name());
    read.flatten().ok_or_else(missing)
}

impl Read for Digesting<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.body.read(out)?;
        if length == 0 && !out.is_empty() {
            self.finish().map_err(|refusal| {
                self.refusal = Some(refusal);
                io::Error::other("the request's body is refused")
            })?;
        } else if let Some((md5, hasher)) = &mut self.hashers {
            md5.update(&out[..length]);
            if let Some(hasher) = hasher {
                hasher.update(&out[..length]);
            }
            self.length += length as u64;
        }
        Ok(length)
    }
}
