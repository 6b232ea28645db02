//! [`Password`]: the secret that clients must give.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use subtle::ConstantTimeEq;

const MIN_PASSWORD_BYTES: usize = 16;
const MAX_PASSWORD_BYTES: usize = 1024;

/// The secret that clients must give.
#[derive(Clone)]
pub struct Password(Vec<u8>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Password {
    /// Reads the password in a file.
    ///
    /// # Errors
    /// `InvalidInput` if others can read the file, or the text cannot be a password.
    pub fn read(path: &Path) -> io::Result<Password> {
        let wrong = |reason: &str| {
            let path = path.display();
            io::Error::new(io::ErrorKind::InvalidInput, format!("the file of the password, {path}, {reason}"))
        };
        let file = File::open(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        if file.metadata()?.mode() & 0o077 != 0 {
            return Err(wrong("can be read by others; make its mode 600"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_PASSWORD_BYTES as u64 + 2).read_to_end(&mut bytes)?;
        let password = bytes.trim_ascii_end();
        match password.len() {
            MIN_PASSWORD_BYTES..=MAX_PASSWORD_BYTES => Ok(Password(password.to_vec())),
            _ => Err(wrong("must hold 16 to 1024 bytes; `openssl rand -hex 32` makes such a text")),
        }
    }

    /// Compares a guess with the password, in a time that tells nothing but the length.
    pub fn is(&self, guess: &[u8]) -> bool {
        self.0.ct_eq(guess).into()
    }
}
