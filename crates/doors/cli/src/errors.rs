//! Error messages: the problem, its place, and the next step.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

/// Formats the error with its causes and advice.
pub fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(|cause| cause.to_string()) {
        let cause = cause.trim_end();
        // Skip a cause whose text already ends the text of the error above it.
        if text.ends_with(cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(cause);
    }
    if let Some(advice) = advice(error) {
        text.push_str("; ");
        text.push_str(advice);
    }
    text
}

/// Returns advice for an error whose message contains none.
fn advice(error: &anyhow::Error) -> Option<&'static str> {
    // A message of our own already contains its advice.
    io_error(error)?.raw_os_error()?;
    Some(match io_kind(error)? {
        io::ErrorKind::NotFound => "see that the path is right",
        io::ErrorKind::PermissionDenied => "use a path, or a user, that has the permission",
        io::ErrorKind::NotADirectory => "a part of the path is no directory; name another",
        io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            "name another path, or move what is there"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there, and run it again",
        io::ErrorKind::ReadOnlyFilesystem => "name a path that can be written",
        io::ErrorKind::InvalidFilename => "use shorter names",
        _ => return None,
    })
}

/// Returns the system error's kind, if the cause is a system error.
pub fn io_kind(error: &anyhow::Error) -> Option<io::ErrorKind> {
    io_error(error).map(io::Error::kind)
}

/// Returns the system error, if the cause is one.
pub fn io_error(error: &anyhow::Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| {
        cause.downcast_ref().or_else(|| cause.downcast_ref::<terrace::Error>().and_then(terrace::Error::io_error))
    })
}

/// Reads the text of a configuration, which must be UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let line = 1 + e.as_bytes().iter().take(good).filter(|&&byte| byte == b'\n').count();
        anyhow!("{}: line {line} is not UTF-8; save the file as UTF-8", path.display())
    })
}
