//! The secret that a client shares with a node.

use std::fmt;
use std::io;
use std::path::Path;

use subtle::ConstantTimeEq;
use terrace_system::read_private;

const MIN_SECRET_BYTES: usize = 16;
const MAX_SECRET_BYTES: usize = 1024;
/// Room for the end of a line.
const MAX_SECRET_FILE_BYTES: usize = MAX_SECRET_BYTES + 2;
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
        let bytes = read_private(path, MAX_SECRET_FILE_BYTES).map_err(|error| wrong(&error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let is_text = text.trim_end().bytes().all(|byte| byte.is_ascii_graphic());
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
