//! How a directory is pulled.

use std::time::Duration;

use crate::Settings;

/// How a directory is pulled.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How long a file must not have changed before it is taken. Where nothing is said: a second for files that nobody is seen to
    /// close, 30 seconds for files of which the system does not tell whether they are open for writing, and no time for others.
    pub settle: Option<Duration>,
    /// Deliver what is added to files behind what was delivered of them, and remove none.
    pub tail: bool,
    /// How long the directory may be away.
    pub patience: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { settle: None, tail: false, patience: Settings::default().patience }
    }
}
