//! [`UploadChecksum`]: the checksum of an upload, made of those of its parts.

use s3s::dto::{ChecksumAlgorithm, ChecksumType, CompletedPart};
use s3s::{S3Result, s3_error};
use terrace::{Attributes, Upload, UploadPart};

use crate::checksums::{self, ChecksumKind, checksum_of};

/// The attribute of an upload with the kind of its checksum, and whether that is of the whole object.
pub const UPLOAD_CHECKSUM: &str = "s3.upload-checksum";

/// The checksum that an upload was begun with.
#[derive(Clone, Copy)]
pub struct UploadChecksum {
    pub kind: ChecksumKind,
    pub is_of_whole: bool,
}

impl UploadChecksum {
    pub fn new(
        algorithm: Option<&ChecksumAlgorithm>,
        wanted: Option<&ChecksumType>,
    ) -> S3Result<Option<UploadChecksum>> {
        let Some(algorithm) = algorithm else { return Ok(None) };
        let unknown = || s3_error!(InvalidRequest, "there is no checksum {:?}", algorithm.as_str());
        let kind = ChecksumKind::named(algorithm.as_str()).ok_or_else(unknown)?;
        let wanted = wanted.map(ChecksumType::as_str);
        let is_of_whole = match (wanted, kind) {
            (None, kind) => kind == ChecksumKind::Crc64Nvme,
            (Some(ChecksumType::FULL_OBJECT), ChecksumKind::Sha1 | ChecksumKind::Sha256) => {
                return Err(s3_error!(
                    InvalidRequest,
                    "{} of a whole object cannot be made of that of its parts",
                    kind.name()
                ));
            }
            (Some(ChecksumType::COMPOSITE), ChecksumKind::Crc64Nvme) => {
                return Err(s3_error!(InvalidRequest, "crc64nvme is always that of the whole object"));
            }
            (Some(wanted), _) => wanted == ChecksumType::FULL_OBJECT,
        };
        Ok(Some(UploadChecksum { kind, is_of_whole }))
    }

    pub fn read(attributes: Option<&Attributes>) -> Option<UploadChecksum> {
        let (kind, way) = attributes?.user.get(UPLOAD_CHECKSUM)?.split_once(' ')?;
        Some(UploadChecksum { kind: ChecksumKind::named(kind)?, is_of_whole: way == ChecksumType::FULL_OBJECT })
    }

    pub fn way(self) -> &'static str {
        if self.is_of_whole { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE }
    }
}

/// The checksum of the object, of the kind with which the upload was begun. That of a part which the client names must be right.
pub fn checksum_of_whole(
    upload: &Upload,
    parts: &[&UploadPart],
    completed: &[CompletedPart],
) -> S3Result<Option<(ChecksumKind, String)>> {
    let Some(UploadChecksum { kind, is_of_whole }) = UploadChecksum::read(upload.attributes.as_ref()) else {
        return Ok(None);
    };
    let mut sums = Vec::with_capacity(parts.len());
    for (part, completed) in parts.iter().zip(completed) {
        let sum = part.object.attributes.digest(kind.name());
        let wrong =
            |number: u32| s3_error!(InvalidPart, "part {} has another {} than the request says", number, kind.name());
        if let Some((_, wanted)) = checksum_of!(completed)
            && sum != Some(&wanted)
        {
            return Err(wrong(part.number));
        }
        let bytes = sum.and_then(checksums::decode).ok_or_else(|| wrong(part.number))?;
        sums.push((bytes, part.object.length));
    }
    let whole = if is_of_whole { kind.combine(&sums) } else { Some(kind.compose(&sums)) };
    Ok(whole.map(|sum| (kind, sum)))
}

/// Clients may leave out the number of parts behind a composed checksum.
pub fn without_count(sum: &str) -> &str {
    sum.split('-').next().unwrap_or_default()
}
