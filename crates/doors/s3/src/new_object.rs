//! The attributes and options of an object that a request writes.

use s3s::S3Result;
use s3s::dto::StorageClass;
use terrace::{Attributes, PutOptions};

use crate::described::{self, Described, STORAGE_CLASS, TAGS_ATTRIBUTE};
use crate::{tags, wishes};

/// Returns the options and the attributes of an object that is made now.
pub fn options(described: &Described, class: Option<&StorageClass>, tagging: Option<&str>) -> S3Result<PutOptions> {
    described.check()?;
    let mut attributes = Attributes::now();
    described.write(&mut attributes);
    described::set(&mut attributes, STORAGE_CLASS, wishes::named_class(class).map(str::to_owned));
    described::set(&mut attributes, TAGS_ATTRIBUTE, tags::of_header(tagging)?);
    Ok(PutOptions { attributes: Some(attributes), ..wishes::options(described.metadata.as_ref(), class)? })
}
