//! Origins that do not answer: for a while, who asks gets the error at once.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_tier::OriginReadError;

/// An origin that did not answer is not asked again for this time, so that a listing does not wait for each of its names.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// The origins' last answers, by the origins' numbers.
#[derive(Default)]
pub struct Troubles(
    // A leaf, held for the lookup or update of an entry.
    Mutex<HashMap<u32, Heard>>,
);

/// The last that was heard of an origin.
#[derive(Default)]
struct Heard {
    /// When it last gave a good answer.
    answered: Option<Instant>,
    trouble: Option<Trouble>,
}

struct Trouble {
    at: Instant,
    kind: io::ErrorKind,
    text: String,
}

impl Troubles {
    /// Checks that an origin has not failed just now.
    ///
    /// # Errors
    /// As it has failed.
    pub fn check(&self, origin: u32) -> io::Result<()> {
        let heard = self.0.lock();
        let trouble = heard.get(&origin).and_then(|heard| heard.trouble.as_ref());
        match trouble.filter(|trouble| trouble.at.elapsed() < TROUBLE_PAUSE) {
            Some(trouble) => Err(io::Error::new(trouble.kind, trouble.text.clone())),
            None => Ok(()),
        }
    }

    /// Notes how an origin has answered what it was asked at a time.
    pub fn note(&self, origin: u32, asked: Instant, trouble: Option<&io::Error>) {
        let mut heard = self.0.lock();
        let heard = heard.entry(origin).or_default();
        let now = Instant::now();
        match trouble {
            None => *heard = Heard { answered: Some(now), trouble: None },
            // It has answered others since.
            Some(_) if heard.answered.is_some_and(|answered| answered > asked) => {}
            Some(error) => heard.trouble = Some(Trouble { at: now, kind: error.kind(), text: error.to_string() }),
        }
    }
}

/// The error of a question to an origin.
pub trait AsTrouble {
    /// Returns the error if it is likely to be that of the next question, too.
    fn as_trouble(&self) -> Option<&io::Error>;
}

impl AsTrouble for io::Error {
    fn as_trouble(&self) -> Option<&io::Error> {
        use io::ErrorKind::*;
        let is_of_one = matches!(
            self.kind(),
            NotFound | Unsupported | InvalidInput | PermissionDenied | UnexpectedEof | InvalidData
        );
        (!is_of_one).then_some(self)
    }
}

impl AsTrouble for OriginReadError {
    fn as_trouble(&self) -> Option<&io::Error> {
        match self {
            OriginReadError::Changed => None,
            OriginReadError::Io(error) => error.as_trouble(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question that was asked while the origin was down was answered last, and the next reader got that error though the origin had come back.
    #[test]
    fn a_late_failure_counts_only_until_a_later_question_is_answered() {
        let (troubles, down) = (Troubles::default(), io::Error::other("down"));
        let early = Instant::now();
        troubles.note(1, Instant::now(), None);
        troubles.note(1, early, Some(&down));
        assert!(troubles.check(1).is_ok());
        troubles.note(1, Instant::now(), Some(&down));
        assert_eq!(troubles.check(1).expect_err("it is down").to_string(), "down");
        assert!(troubles.check(2).is_ok(), "another one");
        troubles.note(1, Instant::now(), None);
        assert!(troubles.check(1).is_ok());
    }
}
