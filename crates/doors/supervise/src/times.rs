//! The times that calls set, in the forms in which the calls have them.

use std::ffi::c_int;

use terrace::files::Setting;
use terrace_system::clock::unix_nanos;

use crate::memory::Caller;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MICROSECOND: i64 = 1000;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// The form of the time of access and of that of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimesForm {
    /// Each in seconds: `utimbuf`.
    Seconds,
    /// Each in seconds and microseconds: `timeval`.
    Microseconds,
    /// Each in seconds and nanoseconds, whose number may say that the time is now, or stays: `timespec`.
    Nanoseconds,
}

impl TimesForm {
    /// Reads both times. Without an address they are now.
    pub fn read(self, caller: Caller, address: u64) -> Result<Setting, c_int> {
        let setting = |accessed, modified| Setting { accessed, modified, ..Setting::default() };
        if address == 0 {
            return Ok(setting(Some(unix_nanos()), Some(unix_nanos())));
        }
        let words = |words: &mut [[u8; 8]]| caller.read(address, words.as_flattened_mut());
        if self == TimesForm::Seconds {
            let mut both = [[0; 8]; 2];
            words(&mut both)?;
            let [accessed, modified] = both.map(|time| Some(nanos(i64::from_ne_bytes(time), 0)));
            return Ok(setting(accessed, modified));
        }
        let mut both = [[0; 8]; 4];
        words(&mut both)?;
        let [accessed, accessed_rest, modified, modified_rest] = both.map(i64::from_ne_bytes);
        Ok(setting(self.time(accessed, accessed_rest)?, self.time(modified, modified_rest)?))
    }

    fn time(self, seconds: i64, rest: i64) -> Result<Option<i64>, c_int> {
        match (self, rest) {
            (TimesForm::Microseconds, 0..MICROS_PER_SECOND) => Ok(Some(nanos(seconds, rest * NANOS_PER_MICROSECOND))),
            (TimesForm::Nanoseconds, libc::UTIME_OMIT) => Ok(None),
            (TimesForm::Nanoseconds, libc::UTIME_NOW) => Ok(Some(unix_nanos())),
            (TimesForm::Nanoseconds, 0..NANOS_PER_SECOND) => Ok(Some(nanos(seconds, rest))),
            _ => Err(libc::EINVAL),
        }
    }
}

fn nanos(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(rest)
}
