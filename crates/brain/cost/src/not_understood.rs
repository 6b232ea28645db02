//! [`NotUnderstood`]: the error for text that is not a valid value.

use std::fmt;

/// Text that is not a valid value, with the valid forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood {
    /// The text.
    pub text: String,
    /// The kind of value.
    pub what: &'static str,
    /// The valid forms.
    pub write: String,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotUnderstood { text, what, write } = self;
        write!(f, "{text:?} is no {what}; write {write}")
    }
}

impl std::error::Error for NotUnderstood {}

impl NotUnderstood {
    /// Makes the error: `text` is no `what`; `write` says which forms are valid.
    pub fn new(text: &str, what: &'static str, write: impl Into<String>) -> NotUnderstood {
        NotUnderstood { text: text.to_owned(), what, write: write.into() }
    }
}
