//! NumPy arrays: a header that is a Python dictionary, then the elements.

use super::window::Window;
use super::{Content, Elements, Span};

pub fn span(window: Window) -> Option<Span> {
    let mut fields = window.at(6)?;
    let version = fields.byte()?;
    fields.byte()?;
    let width = if version == 1 { 2 } else { 4 };
    let length = fields.count(width)?;
    let header = String::from_utf8_lossy(fields.take(length)?);
    let (_, rest) = header.split_once("'descr'")?;
    let elements = Elements::from_dtype(rest.split('\'').nth(1)?)?;
    let start = 8 + width as u64 + length as u64;
    Span::new(start, u64::MAX - start, Content::Numbers(elements))
}
