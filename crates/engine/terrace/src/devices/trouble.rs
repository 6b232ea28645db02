//! The last known trouble of a target.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::report::TierState;

/// A target that failed is not used for this long.
const RETRY_TARGET_AFTER: Duration = Duration::from_secs(2);

/// A failure that comes back within this time is no news. A full disk fails, is tried again because another program has freed some
/// bytes, and fails again, many times a second.
const OLD_NEWS_TIME: Duration = Duration::from_secs(30);

/// The last failure of a target, until an operation succeeds.
#[derive(Default)]
pub struct Trouble(Mutex<Failures>);

#[derive(Default)]
struct Failures {
    last: Option<(Instant, TierState)>,
    /// The last one that was news.
    told: Option<(Instant, TierState)>,
    /// Whether the last write was refused for want of room.
    refused_bytes: bool,
}

impl Trouble {
    /// Returns the assumed state. Some time after a failure, a target counts as usable again.
    pub fn state(&self) -> TierState {
        match self.0.lock().last {
            Some((since, state)) if since.elapsed() < RETRY_TARGET_AFTER => state,
            _ => TierState::Ok,
        }
    }

    /// Notes a failure. Returns whether it is news: the target did not have this trouble before, or long ago.
    pub fn begins(&self, state: TierState) -> bool {
        let Failures { last, told, refused_bytes } = &mut *self.0.lock();
        *refused_bytes |= state == TierState::Full;
        let before = last.replace((Instant::now(), state));
        let is_old = told.is_some_and(|(at, known)| known == state && at.elapsed() < OLD_NEWS_TIME);
        let is_news = before.is_none_or(|(_, known)| known != state) && !is_old;
        if is_news {
            *told = *last;
        }
        is_news
    }

    /// Notes a success, which ends a trouble for which `over` returns true. Returns whether there was one.
    pub fn ends(&self, over: impl Fn(TierState) -> bool) -> bool {
        let Failures { last, refused_bytes, .. } = &mut *self.0.lock();
        *refused_bytes &= !over(TierState::Full);
        last.take_if(|(_, state)| over(*state)).is_some()
    }

    /// Lets the target be used at once, as if the time after its last failure had passed.
    pub fn try_again(&self) {
        self.0.lock().last = None;
    }

    /// Returns whether the last write was refused for want of room, whatever was tried since.
    pub fn has_refused_bytes(&self) -> bool {
        self.0.lock().refused_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_has_refused_bytes_is_tried_again_and_is_known_until_it_takes_some() {
        let trouble = Trouble::default();
        assert!(trouble.begins(TierState::Full) && trouble.has_refused_bytes());
        trouble.try_again();
        assert!(trouble.state() == TierState::Ok && trouble.has_refused_bytes());
        // A read succeeds.
        trouble.ends(|state| state == TierState::Away);
        assert!(trouble.has_refused_bytes());
        trouble.ends(|_| true);
        assert!(!trouble.has_refused_bytes());
    }

    #[test]
    fn a_tier_that_stays_away_is_news_once() {
        let trouble = Trouble::default();
        assert_eq!(trouble.state(), TierState::Ok);
        assert!(trouble.begins(TierState::Away) && !trouble.begins(TierState::Away));
        assert_eq!(trouble.state(), TierState::Away);
        assert!(trouble.begins(TierState::Full), "that is another trouble");
        assert!(!trouble.ends(|state| state == TierState::Away));
        assert!(trouble.ends(|_| true) && !trouble.ends(|_| true));
        assert_eq!(trouble.state(), TierState::Ok);
        assert!(!trouble.begins(TierState::Full), "that was told a moment ago");
        assert_eq!(trouble.state(), TierState::Full);
    }
}
