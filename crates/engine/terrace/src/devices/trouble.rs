//! The last known trouble of a target.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use crate::report::TierState;

/// A target that failed is not used for this long.
const RETRY_TARGET_AFTER: Duration = Duration::from_secs(2);

/// The last failure of a target, until an operation succeeds.
#[derive(Default)]
pub struct Trouble(Mutex<Option<(Instant, TierState)>>);

impl Trouble {
    /// Returns the assumed state. Some time after a failure, a target counts as usable again.
    pub fn state(&self) -> TierState {
        match &*self.0.lock() {
            Some((since, state)) if since.elapsed() < RETRY_TARGET_AFTER => *state,
            _ => TierState::Ok,
        }
    }

    /// Notes a failure. Returns whether the target did not have this trouble before.
    pub fn begins(&self, state: TierState) -> bool {
        let before = self.0.lock().replace((Instant::now(), state));
        before.is_none_or(|(_, known)| known != state)
    }

    /// Notes a success, which ends a trouble for which `over` returns true. Returns whether there was one.
    pub fn ends(&self, over: impl Fn(TierState) -> bool) -> bool {
        let mut last = self.0.lock();
        let ends = last.is_some_and(|(_, state)| over(state));
        if ends {
            *last = None;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(trouble.begins(TierState::Full));
    }
}
