//! [`NamedParts`]: the parts that a client names to complete an upload.

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::CompletedPart;
use s3s::{S3Result, s3_error};
use terrace::UploadPart;

use crate::digesting::hex;
use crate::part_lengths::part_number;

/// The parts that a client names, in order, and the ETag of the object that they become.
pub struct NamedParts {
    pub parts: Vec<(u32, String)>,
    pub etag: String,
}

impl NamedParts {
    pub fn new(parts: &[CompletedPart]) -> S3Result<NamedParts> {
        let mut named: Vec<(u32, String)> = Vec::with_capacity(parts.len());
        let mut md5 = Md5::new();
        for part in parts {
            let number = part_number(part.part_number.unwrap_or_default())?;
            if named.last().is_some_and(|(last, _)| *last >= number) {
                return Err(s3_error!(InvalidPartOrder, "part {} does not follow the one before it", number));
            }
            let etag = part.e_tag.as_ref().map(|etag| etag.value().to_owned()).unwrap_or_default();
            let wrong = || {
                s3_error!(InvalidPart, "part {} has no ETag {:?}; name the one that its upload returned", number, etag)
            };
            md5.update(&unhex(&etag).ok_or_else(wrong)?);
            named.push((number, etag));
        }
        if named.is_empty() {
            return Err(s3_error!(MalformedXML, "the request names no parts"));
        }
        Ok(NamedParts { etag: format!("{}-{}", hex(&md5.finalize()), named.len()), parts: named })
    }

    /// These parts of those that are there.
    pub fn find_in<'a>(&self, all: &'a [UploadPart]) -> S3Result<Vec<&'a UploadPart>> {
        let find = |(number, etag): &(u32, String)| {
            let place = all.binary_search_by_key(number, |part| part.number).ok();
            let part = place.and_then(|place| all.get(place)).filter(|part| part.object.etag() == *etag);
            part.ok_or_else(|| s3_error!(InvalidPart, "there is no part {} with the ETag {:?}", number, etag))
        };
        self.parts.iter().map(find).collect()
    }
}

/// The bytes of an MD5 in digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    if digits.len() == 32 { digits.chunks(2).map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use s3s::dto::ETag;

    use super::*;

    #[test]
    fn parts_are_named_in_order_by_their_md5() {
        let part = |number, etag: &str| CompletedPart {
            part_number: Some(number),
            e_tag: Some(ETag::Strong(etag.to_owned())),
            ..CompletedPart::default()
        };
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let named = NamedParts::new(&[part(2, md5), part(5, md5)]).expect("is right");
        assert!(named.etag.len() == 34 && named.etag.ends_with("-2"), "{}", named.etag);
        let code = |parts: &[CompletedPart]| NamedParts::new(parts).err().expect("is wrong").code().as_str().to_owned();
        assert_eq!(code(&[part(2, md5), part(2, md5)]), "InvalidPartOrder");
        assert_eq!(code(&[part(1, "x")]), "InvalidPart");
        assert_eq!(code(&[]), "MalformedXML");
        assert_eq!(code(&[part(0, md5)]), "InvalidArgument");
    }
}
