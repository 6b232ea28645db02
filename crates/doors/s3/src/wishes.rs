//! Requirements of objects, as metadata or as a storage class.

use s3s::dto::{Metadata, StorageClass};
use s3s::{S3Result, s3_error};
use terrace::{Asked, Object, PutOptions};

use crate::described::STORAGE_CLASS;

/// The metadata with requirements, separated by commas.
const REQUIRE_METADATA: &str = "terrace-require";
/// The class that asks for nothing.
pub const STANDARD_CLASS: &str = "STANDARD";

/// The options of a write with this metadata and this class. A class is `STANDARD`, or the name of a requirement.
pub fn options(metadata: Option<&Metadata>, class: Option<&StorageClass>) -> S3Result<PutOptions> {
    let mut options = PutOptions::default();
    if let Some(list) = metadata.and_then(|metadata| metadata.get(REQUIRE_METADATA)) {
        for text in list.split(',') {
            let asked = text.trim().parse::<Asked>();
            options.requirements.push(asked.map_err(|error| s3_error!(InvalidArgument, "{}", error))?);
        }
    }
    if let Some(class) = named_class(class) {
        let asked = class.to_ascii_lowercase().parse::<Asked>();
        options.requirements.push(asked.map_err(|error| s3_error!(InvalidStorageClass, "storage class: {}", error))?);
    }
    Ok(options)
}

/// The class, unless it is the usual one.
pub fn named_class(class: Option<&StorageClass>) -> Option<&str> {
    class.map(StorageClass::as_str).filter(|class| *class != STANDARD_CLASS)
}

/// The class that the client named for an object.
pub fn class_of(object: &Object) -> String {
    object.attributes.user.get(STORAGE_CLASS).cloned().unwrap_or_else(|| STANDARD_CLASS.to_owned())
}

#[cfg(test)]
mod tests {
    use terrace::Requirement;

    use super::*;

    #[test]
    fn metadata_and_classes_name_requirements() {
        let metadata = |text: &str| Some([(REQUIRE_METADATA.to_owned(), text.to_owned())].into_iter().collect());
        let both = metadata("min_read_latency, max_durability=4");
        let class = StorageClass::from("MIN_STORAGE".to_owned());
        let asked = options(both.as_ref(), Some(&class)).expect("is right").requirements;
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[2], Asked::from(Requirement::MinStorage));
        let standard = StorageClass::from(STANDARD_CLASS.to_owned());
        assert_eq!(options(None, Some(&standard)).expect("is right"), PutOptions::default());
        assert!(options(metadata("fast").as_ref(), None).is_err());
        let glacier = StorageClass::from("GLACIER".to_owned());
        let refused = options(None, Some(&glacier)).expect_err("there is none");
        assert_eq!(refused.code().as_str(), "InvalidStorageClass");
    }
}
