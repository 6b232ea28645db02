//! [`NotUnderstood`]: a wish that is written wrongly.

use std::fmt;

/// Text that is none of what it stands for; says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood {
    /// The text.
    pub text: String,
    /// The expected form.
    pub what: &'static str,
    /// How that is written.
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
    /// `text` is no `what`; `write` says how one is written.
    pub fn new(text: &str, what: &'static str, write: impl Into<String>) -> NotUnderstood {
        NotUnderstood { text: text.to_owned(), what, write: write.into() }
    }
}
