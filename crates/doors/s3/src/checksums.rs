//! Checksums: the five kinds that S3 knows, as digests of objects.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crc_fast::{CrcAlgorithm, checksum_combine};
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::{Checksum, ChecksumAlgorithm, ChecksumType};
use terrace::Attributes;

/// A kind of checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// The prefix of headers and trailers with a checksum.
const HEADER_PREFIX: &str = "x-amz-checksum-";

impl ChecksumKind {
    pub const ALL_KINDS: [ChecksumKind; 5] =
        [ChecksumKind::Crc32, ChecksumKind::Crc32c, ChecksumKind::Crc64Nvme, ChecksumKind::Sha1, ChecksumKind::Sha256];

    /// Its name in headers, and that of the digest.
    pub fn name(self) -> &'static str {
        match self {
            ChecksumKind::Crc32 => "crc32",
            ChecksumKind::Crc32c => "crc32c",
            ChecksumKind::Crc64Nvme => "crc64nvme",
            ChecksumKind::Sha1 => "sha1",
            ChecksumKind::Sha256 => "sha256",
        }
    }

    /// The kind of a name, in letters of any case.
    pub fn named(name: &str) -> Option<ChecksumKind> {
        ChecksumKind::ALL_KINDS.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The kind whose value a header or a trailer has.
    pub fn of_header(header: &str) -> Option<ChecksumKind> {
        let (prefix, name) = header.split_at_checked(HEADER_PREFIX.len())?;
        if prefix.eq_ignore_ascii_case(HEADER_PREFIX) { ChecksumKind::named(name) } else { None }
    }

    /// The name of its header and trailer.
    pub fn header(self) -> String {
        format!("{HEADER_PREFIX}{}", self.name())
    }

    pub fn algorithm(self) -> ChecksumAlgorithm {
        match self {
            ChecksumKind::Crc32 => ChecksumAlgorithm::from_static(ChecksumAlgorithm::CRC32),
            ChecksumKind::Crc32c => ChecksumAlgorithm::from_static(ChecksumAlgorithm::CRC32C),
            ChecksumKind::Crc64Nvme => ChecksumAlgorithm::from_static(ChecksumAlgorithm::CRC64NVME),
            ChecksumKind::Sha1 => ChecksumAlgorithm::from_static(ChecksumAlgorithm::SHA1),
            ChecksumKind::Sha256 => ChecksumAlgorithm::from_static(ChecksumAlgorithm::SHA256),
        }
    }

    /// The checksum of a whole object from those of its parts, each with the part's length. None if only all bytes could tell.
    pub fn combine(self, parts: &[(Vec<u8>, u64)]) -> Option<String> {
        let algorithm = match self {
            ChecksumKind::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
            ChecksumKind::Crc32c => CrcAlgorithm::Crc32Iscsi,
            ChecksumKind::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            ChecksumKind::Sha1 | ChecksumKind::Sha256 => return None,
        };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mut parts = parts.iter();
        let (first, _) = parts.next()?;
        let width = first.len();
        let whole =
            parts.fold(number(first), |sum, (next, length)| checksum_combine(algorithm, sum, number(next), *length));
        Some(BASE64_STANDARD.encode(whole.to_be_bytes().get(8 - width..)?))
    }

    /// The checksum of the checksums of parts, with their number behind a dash.
    pub fn compose(self, parts: &[(Vec<u8>, u64)]) -> String {
        let mut hasher = Hasher::new(self);
        parts.iter().for_each(|(sum, _)| hasher.update(sum));
        format!("{}-{}", hasher.finish(), parts.len())
    }
}

/// Computes one kind of checksum.
pub enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    pub fn new(kind: ChecksumKind) -> Hasher {
        match kind {
            ChecksumKind::Crc32 => Hasher::Crc32(Crc32::new()),
            ChecksumKind::Crc32c => Hasher::Crc32c(Crc32c::new()),
            ChecksumKind::Crc64Nvme => Hasher::Crc64Nvme(Crc64Nvme::new()),
            ChecksumKind::Sha1 => Hasher::Sha1(Sha1::new()),
            ChecksumKind::Sha256 => Hasher::Sha256(Sha256::new()),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Crc32(hasher) => hasher.update(bytes),
            Hasher::Crc32c(hasher) => hasher.update(bytes),
            Hasher::Crc64Nvme(hasher) => hasher.update(bytes),
            Hasher::Sha1(hasher) => hasher.update(bytes),
            Hasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// The checksum as headers have it, in base 64.
    pub fn finish(self) -> String {
        match self {
            Hasher::Crc32(hasher) => BASE64_STANDARD.encode(hasher.finalize()),
            Hasher::Crc32c(hasher) => BASE64_STANDARD.encode(hasher.finalize()),
            Hasher::Crc64Nvme(hasher) => BASE64_STANDARD.encode(hasher.finalize()),
            Hasher::Sha1(hasher) => BASE64_STANDARD.encode(hasher.finalize()),
            Hasher::Sha256(hasher) => BASE64_STANDARD.encode(hasher.finalize()),
        }
    }
}

/// The checksum that an object has, with its kind. Clients send one.
pub fn stored(attributes: &Attributes) -> Option<(ChecksumKind, &str)> {
    ChecksumKind::ALL_KINDS.into_iter().find_map(|kind| Some((kind, attributes.digest(kind.name())?)))
}

/// The bytes of a checksum in base 64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// The checksum of an object in the fields of an answer.
pub fn fields(attributes: &Attributes) -> Checksum {
    let mut fields = Checksum::default();
    if let Some((kind, value)) = stored(attributes) {
        let kind_of_whole = match value.contains('-') {
            true => ChecksumType::COMPOSITE,
            false => ChecksumType::FULL_OBJECT,
        };
        fields.checksum_type = Some(ChecksumType::from_static(kind_of_whole));
        let field = match kind {
            ChecksumKind::Crc32 => &mut fields.checksum_crc32,
            ChecksumKind::Crc32c => &mut fields.checksum_crc32c,
            ChecksumKind::Crc64Nvme => &mut fields.checksum_crc64nvme,
            ChecksumKind::Sha1 => &mut fields.checksum_sha1,
            ChecksumKind::Sha256 => &mut fields.checksum_sha256,
        };
        *field = Some(value.to_owned());
    }
    fields
}

/// The checksum in the fields of a request, if it has one.
macro_rules! checksum_of {
    ($input:expr) => {
        [
            ($crate::checksums::ChecksumKind::Crc32, $input.checksum_crc32.clone()),
            ($crate::checksums::ChecksumKind::Crc32c, $input.checksum_crc32c.clone()),
            ($crate::checksums::ChecksumKind::Crc64Nvme, $input.checksum_crc64nvme.clone()),
            ($crate::checksums::ChecksumKind::Sha1, $input.checksum_sha1.clone()),
            ($crate::checksums::ChecksumKind::Sha256, $input.checksum_sha256.clone()),
        ]
        .into_iter()
        .find_map(|(kind, value)| Some((kind, value?)))
    };
}

/// Gives an answer the fields of a checksum.
macro_rules! give_checksum {
    ($output:expr, $fields:expr) => {{
        let fields = $fields;
        $output.checksum_crc32 = fields.checksum_crc32;
        $output.checksum_crc32c = fields.checksum_crc32c;
        $output.checksum_crc64nvme = fields.checksum_crc64nvme;
        $output.checksum_sha1 = fields.checksum_sha1;
        $output.checksum_sha256 = fields.checksum_sha256;
    }};
}

pub(crate) use {checksum_of, give_checksum};

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(kind: ChecksumKind, bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(kind);
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn the_checksum_of_parts_is_that_of_the_whole() {
        for kind in ChecksumKind::ALL_KINDS {
            let parts: Vec<_> = [&b"some "[..], b"", b"bytes"]
                .map(|part| (decode(&sum(kind, part)).expect("is base 64"), part.len() as u64))
                .into();
            let whole = kind.combine(&parts);
            assert!(whole.is_none_or(|whole| whole == sum(kind, b"some bytes")), "{kind:?}");
            assert!(kind.compose(&parts).ends_with("-3"));
        }
        // Of the nine digits, as the lists of checksums have them.
        assert_eq!(sum(ChecksumKind::Crc32, b"123456789"), "y/Q5Jg==");
        assert_eq!(sum(ChecksumKind::Crc32c, b"123456789"), "4waSgw==");
        assert_eq!(sum(ChecksumKind::Crc64Nvme, b"123456789"), "rosUhgp5mIg=");
    }

    #[test]
    fn headers_name_kinds() {
        assert_eq!(ChecksumKind::of_header("X-Amz-Checksum-CRC32C"), Some(ChecksumKind::Crc32c));
        for wrong in ["x-amz-checksum-type", "x-amz", "crc32", "x-amz-checksum-crc32\u{e9}"] {
            assert_eq!(ChecksumKind::of_header(wrong), None, "{wrong}");
        }
        assert!(ChecksumKind::ALL_KINDS.iter().all(|kind| ChecksumKind::of_header(&kind.header()) == Some(*kind)));
    }
}
