//! Encodings from the four bytes of a frame, and from and to names.
//!
//! A name is `[transform+]codec[-element][-level]`, as in `shuffle4+zstd-1` or `pco-f32`. A transform's name includes the element: by its width,
//! as in `shuffle4`; or by its name, as in `delta-i32`, if that width means another element.

use std::fmt;
use std::str::FromStr;

use crate::{CodecId, Element, Encoding, Error, Transform};

impl Encoding {
    /// Returns the encoding for four bytes of a frame's header.
    ///
    /// # Errors
    /// [`Error::UnknownTransform`], [`Error::UnknownElement`] or [`Error::UnknownCodec`].
    pub fn from_bytes([transform, element, codec, level]: [u8; 4]) -> Result<Self, Error> {
        Ok(Encoding {
            transform: Transform::of(transform).ok_or(Error::UnknownTransform(transform))?,
            element: Element::of(element).ok_or(Error::UnknownElement(element))?,
            codec: CodecId::of(codec).ok_or(Error::UnknownCodec(codec))?,
            level: level.cast_signed(),
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encoding { transform, element, codec, level } = *self;
        if transform != Transform::None {
            match Element::of_width(element.width()) {
                Some(usual) if usual == element => write!(f, "{}{}+", transform.name(), element.width())?,
                _ => write!(f, "{}-{}+", transform.name(), element.name())?,
            }
        }
        f.write_str(codec.name())?;
        if transform == Transform::None && element != Element::Bytes {
            write!(f, "-{}", element.name())?;
        }
        if level != codec.usual_level() {
            write!(f, "-{level}")?;
        }
        Ok(())
    }
}

impl FromStr for Encoding {
    type Err = Error;

    fn from_str(name: &str) -> Result<Encoding, Error> {
        parse(name).ok_or_else(|| Error::UnknownName(name.to_owned()))
    }
}

impl FromStr for Element {
    type Err = Error;

    fn from_str(name: &str) -> Result<Element, Error> {
        let known = Element::ALL.iter().copied().find(|element| element.name() == name);
        known.ok_or_else(|| Error::UnknownElementName(name.to_owned()))
    }
}

fn parse(name: &str) -> Option<Encoding> {
    let (transform, carried, rest) = match name.split_once('+') {
        Some((first, rest)) => {
            let (transform, element) = parse_transform(first)?;
            (transform, Some(element), rest)
        }
        None => (Transform::None, None, name),
    };
    let (codec, rest) = head(rest);
    let codec = CodecId::ALL.iter().copied().find(|c| c.name() == codec)?;
    let (own, after) = rest.map_or(("", None), head);
    let (element, level) = match Element::ALL.iter().copied().find(|e| e.name() == own) {
        Some(_) if carried.is_some() => return None,
        Some(element) => (element, after),
        None => (carried.unwrap_or(Element::Bytes), rest),
    };
    let level = level.map_or(Some(codec.usual_level()), |text| text.parse().ok())?;
    Some(Encoding { transform, element, codec, level })
}

fn parse_transform(text: &str) -> Option<(Transform, Element)> {
    let &transform = Transform::ALL.iter().find(|t| **t != Transform::None && text.starts_with(t.name()))?;
    let rest = &text[transform.name().len()..];
    let element = match rest.strip_prefix('-') {
        Some(name) => Element::ALL.iter().copied().find(|e| e.name() == name)?,
        None => Element::of_width(rest.parse().ok()?)?,
    };
    Some((transform, element))
}

/// Returns the text before the first `-`, and the text after it.
fn head(text: &str) -> (&str, Option<&str>) {
    text.split_once('-').map_or((text, None), |(head, rest)| (head, Some(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_encoding() {
        for &transform in Transform::ALL {
            for &element in Element::ALL {
                for &codec in CodecId::ALL {
                    for level in [-128, -5, 0, 1, 8, 127] {
                        let encoding = Encoding { transform, element, codec, level };
                        assert_eq!(encoding.to_string().parse::<Encoding>().expect("a name"), encoding, "{encoding}");
                        assert_eq!(Encoding::from_bytes(encoding.to_bytes()).expect("bytes"), encoding);
                    }
                }
            }
        }
    }

    #[test]
    fn invalid_names_are_errors() {
        for name in
            ["", "lz5", "+lz4", "shuffle+lz4", "shuffle3+lz4", "shuffle4+", "zstd-", "zstd-900", "delta4+pco-f32"]
        {
            assert!(name.parse::<Encoding>().is_err(), "{name}");
        }
    }
}
