//! [`Keys`]: the clients that the server knows.

use std::collections::HashMap;
use std::path::Path;

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};
use terrace_system::read_private;

use crate::BeginError;

/// A longer file is not one of keys.
const MAX_KEYS_FILE_BYTES: usize = 1 << 20;
/// A shorter secret can be guessed from one signed request.
const MIN_SECRET_BYTES: usize = 16;

/// The access keys of clients, each with its secret.
#[derive(Debug)]
pub struct Keys(HashMap<String, SecretKey>);

impl Keys {
    /// Reads a file with a line `ACCESS SECRET` for each client. Empty lines, and those that begin with `#`, are left out.
    ///
    /// # Errors
    /// If others can read the file, or a line is wrong.
    pub fn read(path: &Path) -> Result<Keys, BeginError> {
        let wrong = |reason: &str| BeginError::new(format!("the file of keys, {}, {reason}", path.display()));
        let bytes = read_private(path, MAX_KEYS_FILE_BYTES).map_err(|error| wrong(&error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| wrong(&format!("is no text: {error}")))?;
        Keys::parse(&text).map_err(|reason| wrong(&reason))
    }

    pub(crate) fn parse(text: &str) -> Result<Keys, String> {
        let mut keys = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |reason: &str| format!("line {}: {reason}", number + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            let [access, secret] = words[..] else { return Err(wrong("write an access key, a space, and its secret")) };
            // A slash would end the access key in the header of a signed request, and a comma the header's part.
            if !access.bytes().all(|byte| byte.is_ascii_graphic() && !b"/,".contains(&byte)) {
                return Err(wrong("an access key has only letters, digits and signs other than / and ,"));
            }
            if secret.len() < MIN_SECRET_BYTES {
                return Err(wrong("the secret has fewer than 16 letters; `openssl rand -hex 20` makes one"));
            }
            if keys.insert(access.to_owned(), SecretKey::from(secret)).is_some() {
                return Err(wrong("the access key has a line already"));
            }
        }
        if keys.is_empty() {
            return Err("has no line `ACCESS SECRET`, so no client could connect".to_owned());
        }
        Ok(Keys(keys))
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access: &str) -> S3Result<SecretKey> {
        let unknown = || s3_error!(InvalidAccessKeyId, "the server's file of keys has no such access key");
        self.0.get(access).cloned().ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_client_or_a_reason() {
        let keys = Keys::parse("# people\n\nana 0123456789abcdef\n  bob\tfedcba9876543210  \n").expect("is right");
        assert_eq!(keys.0.get("bob").map(SecretKey::expose), Some("fedcba9876543210"));
        assert_eq!(keys.0.len(), 2);
        for (text, reason) in [
            ("ana", "line 1: write an access key"),
            ("\nana short", "line 2: the secret has fewer"),
            ("a/b 0123456789abcdef", "line 1: an access key has only"),
            ("a 0123456789abcdef\na 0123456789abcdef", "line 2: the access key has a line"),
            ("# nobody", "no client could connect"),
        ] {
            let refused = Keys::parse(text).expect_err(text);
            assert!(refused.contains(reason), "{text:?}: {refused}");
        }
    }
}
