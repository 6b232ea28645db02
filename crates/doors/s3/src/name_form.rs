//! [`NameForm`]: how an answer writes names; and how many names it has at most.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use s3s::dto::EncodingType;
use s3s::{S3Result, s3_error};

/// The most names in one answer.
pub const MAX_PAGE_NAMES: i32 = 1000;
/// Signs that a name keeps if it is encoded as URLs are.
const PLAIN_SIGNS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// Returns the most names in the answer to a client that asks for at most this number.
pub fn limit_names(wanted: Option<i32>) -> S3Result<i32> {
    match wanted.unwrap_or(MAX_PAGE_NAMES) {
        limit @ 0.. => Ok(limit.min(MAX_PAGE_NAMES)),
        limit => Err(s3_error!(InvalidArgument, "{} names cannot be listed", limit)),
    }
}

/// How an answer writes names.
#[derive(Clone, Copy)]
pub struct NameForm {
    /// Whether names are encoded as in URLs. Clients ask for it because XML cannot express some bytes.
    is_encoded: bool,
}

impl NameForm {
    pub fn new(encoding: Option<&EncodingType>) -> S3Result<NameForm> {
        match encoding.map(EncodingType::as_str) {
            None | Some("") => Ok(NameForm { is_encoded: false }),
            Some(EncodingType::URL) => Ok(NameForm { is_encoded: true }),
            Some(other) => Err(s3_error!(InvalidArgument, "names are encoded as in a url, not {:?}", other)),
        }
    }

    /// Returns a name as the answer writes it.
    pub fn format(self, name: &[u8]) -> String {
        match self.is_encoded {
            true => percent_encode(name, PLAIN_SIGNS).to_string(),
            false => String::from_utf8_lossy(name).into_owned(),
        }
    }

    /// Returns text that the client sent as the answer writes it; none for empty text.
    pub fn format_given(self, text: Option<&String>) -> Option<String> {
        text.filter(|text| !text.is_empty()).map(|text| self.format(text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_only_signs_that_urls_and_xml_keep() {
        let url = NameForm::new(Some(&EncodingType::from("url".to_owned()))).expect("is one");
        assert_eq!(url.format(b"a b+c/\x01\xff~-_.%"), "a%20b%2Bc/%01%FF~-_.%25");
        assert_eq!(NameForm::new(None).expect("is one").format(b"a b+c"), "a b+c");
        assert!(NameForm::new(Some(&EncodingType::from("base64".to_owned()))).is_err());
        assert_eq!(
            (limit_names(Some(0)).ok(), limit_names(Some(5000)).ok(), limit_names(Some(-1)).ok()),
            (Some(0), Some(1000), None)
        );
    }
}
