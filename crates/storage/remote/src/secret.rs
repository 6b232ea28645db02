//! The secret that a client shares with a node.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use subtle::ConstantTimeEq;

const MIN_SECRET_BYTES: usize = 16;
const MAX_SECRET_BYTES: usize = 1024;
/// The text before the secret in the header.
const SECRET_SCHEME: &str = "Bearer ";

/// A secret, as a header sends it.
#[derive(Clone)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Reads the secret in a file.
    ///
    /// # Errors
    /// `InvalidInput` if others can read the file, or the text cannot be a secret.
    pub fn read(path: &Path) -> io::Result<Secret> {
        let wrong = |reason: &str| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("the file of the secret, {}, {reason}", path.display()))
        };
        let file = File::open(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        if file.metadata()?.mode() & 0o077 != 0 {
            return Err(wrong("can be read by others; make its mode 600"));
        }
        let mut text = String::new();
        let read = file.take(MAX_SECRET_BYTES as u64 + 1).read_to_string(&mut text);
        let is_text = read.is_ok() && text.trim_end().bytes().all(|byte| byte.is_ascii_graphic());
        match text.trim_end().len() {
            MIN_SECRET_BYTES..=MAX_SECRET_BYTES if is_text => Ok(Secret(format!("{SECRET_SCHEME}{}", text.trim_end()))),
            _ => Err(wrong("must hold 16 to 1024 letters, digits and signs; `openssl rand -hex 32` makes such a text")),
        }
    }

    /// The value of the header `Authorization`.
    pub fn header(&self) -> &str {
        &self.0
    }

    /// Compares a header with this secret, in a time that tells nothing but the length.
    pub fn is(&self, header: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(header).into()
    }
}
