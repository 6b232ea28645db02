//! The schedule of scrubs. Each round verifies the whole store in parts, spread over an interval.

use std::time::Duration;

use terrace_system::clock::unix_seconds;

use super::Care;
use super::scrub::ScrubOutcome;
use crate::Result;
use crate::home::ScrubRecord;
use crate::report::Scrubbed;

impl Care {
    /// Scrubs and repairs the next part if it is due. Returns its findings, if it reached its end, and the time until the
    /// next part is due.
    pub fn scrub_next_part(
        &self,
        interval: Duration,
        go_on: &mut dyn FnMut(&Scrubbed) -> bool,
    ) -> Result<(Option<Scrubbed>, Duration)> {
        let interval = interval.as_secs().max(1);
        let dir = &self.journal.dir;
        let subset = match ScrubRecord::read(dir).next(interval, unix_seconds()) {
            Ok(subset) => subset,
            Err(left) => return Ok((None, left)),
        };
        let ScrubOutcome { found, unreplaced, is_whole } = self.scrub(b"", true, Some(subset), go_on)?;
        if !is_whole {
            return Ok((None, Duration::ZERO));
        }
        // Before the record is locked, since it may take long.
        let silent = self.silent_targets();
        let left = ScrubRecord::change(dir, |record| {
            let now = unix_seconds();
            // The part is still due, unless the clock was set back, or a manual scrub has ended meanwhile.
            let _ = record.next(interval, now);
            record.add(&found, &unreplaced, now, |target| silent.contains(&target));
            record.clone().next(interval, now).err().unwrap_or_default()
        });
        Ok((Some(found), left))
    }
}
