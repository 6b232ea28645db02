//! Options for pulling a directory.

use std::time::Duration;

use crate::Settings;

/// Options for pulling a directory.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The settle time: how long a file must stay unchanged before it is taken. By default: 1 second for files that are not seen to be
    /// closed, 30 seconds for files for which the system does not report writers, and zero for others.
    pub settle: Option<Duration>,
    /// Deliver the bytes added to files behind those delivered before, and remove no file.
    pub tail: bool,
    /// How long the directory may be unreadable.
    pub patience: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { settle: None, tail: false, patience: Settings::default().patience }
    }
}
