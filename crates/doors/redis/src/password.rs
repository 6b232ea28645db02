//! [`Password`]: the secret that clients must give.

use std::fmt;
use std::io;
use std::path::Path;

use subtle::ConstantTimeEq;
use terrace_system::read_private;

const MIN_PASSWORD_BYTES: usize = 16;
const MAX_PASSWORD_BYTES: usize = 1024;
/// Room for the end of a line.
const MAX_PASSWORD_FILE_BYTES: usize = MAX_PASSWORD_BYTES + 2;

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
        let bytes = read_private(path, MAX_PASSWORD_FILE_BYTES).map_err(|error| wrong(&error.to_string()))?;
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
