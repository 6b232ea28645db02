//! [`Problem`]: why a command did not succeed, in the words that clients of Redis know.

use std::borrow::Cow;

use terrace::Error;

/// The command met a value of another type.
pub const WRONG_TYPE: Problem = said("WRONGTYPE Operation against a key holding the wrong kind of value");
/// The arguments do not fit together.
pub const SYNTAX_ERROR: Problem = said("ERR syntax error");
/// An argument or a value is no whole number of 64 bits.
pub const NOT_AN_INTEGER: Problem = said("ERR value is not an integer or out of range");
/// An argument or a value is no number.
pub const NOT_A_FLOAT: Problem = said("ERR value is not a valid float");
/// The key does not exist.
pub const NO_SUCH_KEY: Problem = said("ERR no such key");

/// The reason why a command did not succeed.
#[derive(Debug)]
pub enum Problem {
    /// The command cannot be carried out. The text begins with a code.
    Said(Cow<'static, str>),
    /// The store failed.
    Store(Error),
    /// Nothing is there yet, and the client is ready to wait.
    Wait,
}

/// A problem with this text.
pub const fn said(text: &'static str) -> Problem {
    Problem::Said(Cow::Borrowed(text))
}

impl Problem {
    /// The text of the reply.
    pub fn text(&self) -> String {
        match self {
            Problem::Said(text) => text.clone().into_owned(),
            // Clients know this code, and do not try again at once.
            Problem::Store(error @ Error::NoSpace { .. }) => format!("OOM {error}"),
            Problem::Store(error) => format!("ERR {error}"),
            Problem::Wait => "ERR the command cannot wait here".to_owned(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Store(error)
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem::Said(Cow::Owned(text))
    }
}
