//! The time that a job's end may take.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use terrace::sparse::{ReadHoles, WriteHoles};

use super::steps::{Step, Steps};
use crate::errors::io_error;

const DEADLINE_PASSED: &str = "the deadline has passed; run the command again";
const SIGTERM_CAME: &str = "SIGTERM has come; run the command again";

/// The error of an object that is given up at the deadline. Errors of file systems and services may have the same kind.
#[derive(Debug)]
pub struct DeadlinePassed;

impl Display for DeadlinePassed {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(DEADLINE_PASSED)
    }
}

impl std::error::Error for DeadlinePassed {}

impl DeadlinePassed {
    /// Returns whether this is the cause of an error.
    pub fn is_in(error: &anyhow::Error) -> bool {
        io_error(error).and_then(io::Error::get_ref).is_some_and(|cause| cause.is::<DeadlinePassed>())
    }
}

/// When no further object begins, and when the one in progress is given up.
pub struct Clock<'a> {
    pub until: Option<Instant>,
    /// Set by SIGTERM.
    pub stops: &'a AtomicBool,
    pub steps: &'a Steps,
}

impl Clock<'_> {
    /// Returns a clock for a part of the time that is left.
    pub fn part(&self, part: u32) -> Clock<'_> {
        let now = Instant::now();
        let until = self.until.map(|until| now + until.saturating_duration_since(now) / part);
        Clock { until, ..*self }
    }

    /// Says why no further object begins. None if one may.
    pub fn why_over(&self) -> Option<&'static str> {
        if self.is_late() {
            return Some(DEADLINE_PASSED);
        }
        // Relaxed: no other data depends on the flag.
        self.stops.load(Ordering::Relaxed).then_some(SIGTERM_CAME)
    }

    /// Returns whether the deadline has passed.
    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Fails with [`DeadlinePassed`] if the deadline has passed.
    pub fn check(&self) -> io::Result<()> {
        self.limit(()).check()
    }

    /// Limits reads or writes of an object.
    pub fn limit<T>(&self, inner: T) -> Limited<'_, T> {
        Limited { inner, until: self.until, steps: self.steps }
    }

    /// Begins a step that may hang, with words such as `writing a`.
    pub fn step(&self, words: String) -> Step<'_> {
        self.steps.begin(words)
    }
}

/// Bytes that are read or written until a time, and fail after it.
pub struct Limited<'a, T> {
    pub inner: T,
    until: Option<Instant>,
    steps: &'a Steps,
}

impl<T> Limited<'_, T> {
    fn check(&self) -> io::Result<()> {
        self.steps.note_progress();
        match self.until.is_some_and(|until| Instant::now() >= until) {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, DeadlinePassed)),
            false => Ok(()),
        }
    }
}

impl<T: Read> Read for Limited<'_, T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.read(out)
    }
}

impl<T: ReadHoles> ReadHoles for Limited<'_, T> {
    fn pass_hole(&mut self) -> io::Result<u64> {
        self.inner.pass_hole()
    }
}

impl<T: Write> Write for Limited<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: WriteHoles> WriteHoles for Limited<'_, T> {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        self.inner.skip_hole(length)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, Result};

    use super::*;

    /// An object that a server had failed to take in time counted as left because of the deadline.
    #[test]
    fn only_the_deadline_itself_is_a_deadline() {
        let error = |late: io::Error| Result::<()>::Err(late.into()).context("writing a").unwrap_err();
        let stops = AtomicBool::new(false);
        let steps = Steps::new();
        let clock = Clock { until: Some(Instant::now()), stops: &stops, steps: &steps };
        assert!(DeadlinePassed::is_in(&error(clock.check().unwrap_err())));
        assert!(!DeadlinePassed::is_in(&error(io::Error::from_raw_os_error(
            rustix::io::Errno::TIMEDOUT.raw_os_error()
        ))));
        assert!(!DeadlinePassed::is_in(&error(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))));
    }
}
