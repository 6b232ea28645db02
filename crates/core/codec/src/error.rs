use crate::{Element, Encoding};

/// Why bytes could not be encoded or decoded.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no transform with this number.
    #[error("no transform has the number {0}")]
    UnknownTransform(u8),
    /// There is no element with this number.
    #[error("no element has the number {0}")]
    UnknownElement(u8),
    /// There is no codec with this number.
    #[error("no codec has the number {0}")]
    UnknownCodec(u8),
    /// The text is not the name of an encoding.
    #[error("no encoding is named {0:?}; `none`, `lz4`, `shuffle4+zstd-1` and `pco-f32` are such names")]
    UnknownName(String),
    /// The text is not the name of an element.
    #[error("{0:?} is none of {names}", names = Element::ALL.iter().map(|e| e.name()).collect::<Vec<_>>().join(", "))]
    UnknownElementName(String),
    /// The stored bytes are not a valid result of this encoding.
    #[error("{encoding}: the stored bytes are damaged: {reason}")]
    Damaged {
        /// The encoding.
        encoding: Encoding,
        /// The defect.
        reason: String,
    },
    /// The codec's library failed.
    #[error("{encoding}: {reason}")]
    Internal {
        /// The encoding.
        encoding: Encoding,
        /// The library's message.
        reason: String,
    },
}
