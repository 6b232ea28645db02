//! Error replies, in the words of other servers: clients recognise errors by their texts.

use std::borrow::Cow;

/// The reason why a request failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal(pub Cow<'static, str>);

pub type Answer<T> = Result<T, Refusal>;

pub const UNKNOWN_FID: Refusal = Refusal(Cow::Borrowed("fid unknown or out of range"));
pub const FID_IN_USE: Refusal = Refusal(Cow::Borrowed("fid already in use"));
pub const BAD_USE: Refusal = Refusal(Cow::Borrowed("bad use of fid"));
pub const BAD_OFFSET: Refusal = Refusal(Cow::Borrowed("bad offset in directory read"));
pub const NO_AUTHENTICATION: Refusal = Refusal(Cow::Borrowed("authentication not required"));
pub const NO_CONVERSION: Refusal = Refusal(Cow::Borrowed("wstat can't convert between files and directories"));
pub const NO_WSTAT: Refusal = Refusal(Cow::Borrowed("wstat prohibited"));
pub const UNKNOWN_MESSAGE: Refusal = Refusal(Cow::Borrowed("unknown message"));
pub const NO_VERSION: Refusal = Refusal(Cow::Borrowed("no version was agreed on"));

impl From<terrace_tree::Error> for Refusal {
    fn from(error: terrace_tree::Error) -> Refusal {
        if error.is_the_stores() {
            tracing::warn!(%error, "a request failed");
        }
        errno(error.errno())
    }
}

impl From<terrace::files::FileError> for Refusal {
    fn from(error: terrace::files::FileError) -> Refusal {
        terrace_tree::Error::from(error).into()
    }
}

/// Returns the text of an error number from the C library.
pub fn errno(number: i32) -> Refusal {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    Refusal(text[..end].to_owned().into())
}
