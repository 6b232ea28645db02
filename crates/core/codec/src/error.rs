use crate::Encoding;

/// Why bytes could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No transform has this number.
    #[error("no transform has the number {0}")]
    UnknownTransform(u8),
    /// No element has this number.
    #[error("no element has the number {0}")]
    UnknownElement(u8),
    /// No codec has this number.
    #[error("no codec has the number {0}")]
    UnknownCodec(u8),
    /// The text names no encoding.
    #[error("no encoding is named {0:?}; `none`, `lz4`, `shuffle4+zstd-1` and `pco-f32` are such names")]
    UnknownName(String),
    /// The stored bytes are not what this encoding makes.
    #[error("{encoding}: the stored bytes are damaged: {reason}")]
    Damaged {
        /// The encoding.
        encoding: Encoding,
        /// What is wrong.
        reason: String,
    },
    /// The codec's library failed.
    #[error("{encoding}: {reason}")]
    Internal {
        /// The encoding.
        encoding: Encoding,
        /// What the library says.
        reason: String,
    },
}
