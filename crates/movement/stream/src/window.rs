//! The received requests of a producer: the highest contiguous sequence, and a bounded window beyond it.

use std::collections::BTreeSet;
use std::fmt;

/// The largest distance between a sequence and the highest contiguous one.
pub const MAX_SEQUENCE_LEAD: u64 = 4096;

/// The received sequences of one producer, starting at 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    contiguous: u64,
    beyond: BTreeSet<u64>,
}

impl Window {
    /// The highest sequence up to which all have arrived.
    pub fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Whether the sequence has arrived.
    pub fn contains(&self, sequence: u64) -> bool {
        sequence <= self.contiguous || self.beyond.contains(&sequence)
    }

    /// Whether the sequence is close enough to the contiguous ones to be accepted.
    pub fn reaches(&self, sequence: u64) -> bool {
        sequence <= self.contiguous.saturating_add(MAX_SEQUENCE_LEAD)
    }

    /// Adds a sequence.
    pub fn add(&mut self, sequence: u64) {
        if sequence > self.contiguous {
            self.beyond.insert(sequence);
            self.advance();
        }
    }

    /// Merges another window into this one.
    pub fn merge(&mut self, other: &Window) {
        self.contiguous = self.contiguous.max(other.contiguous);
        self.beyond.extend(&other.beyond);
        match self.contiguous.checked_add(1) {
            Some(next) => self.beyond = self.beyond.split_off(&next),
            None => self.beyond.clear(),
        }
        self.advance();
    }

    fn advance(&mut self) {
        // No sequence follows the highest one, which a damaged record may name.
        while let Some(next) = self.contiguous.checked_add(1).filter(|next| self.beyond.remove(next)) {
            self.contiguous = next;
        }
    }

    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Window> {
        let (contiguous, beyond) = text.split_once('+').unwrap_or((text, ""));
        let beyond = beyond.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().ok());
        Some(Window { contiguous: contiguous.parse().ok()?, beyond: beyond.collect::<Option<_>>()? })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.contiguous)?;
        let separators = std::iter::once('+').chain(std::iter::repeat(','));
        self.beyond.iter().zip(separators).try_for_each(|(sequence, separator)| write!(f, "{separator}{sequence}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A damaged record may name the highest number: what follows it was computed with an overflow.
    #[test]
    fn nothing_follows_the_highest_sequence() {
        let mut window = Window::parse(&u64::MAX.to_string()).expect("a window");
        window.merge(&Window::parse("3+5").expect("a window"));
        window.add(u64::MAX);
        assert_eq!(window.to_string(), u64::MAX.to_string());
    }

    proptest! {
        #[test]
        fn windows_are_sets(a in prop::collection::vec(1u64..40, 0..60), b in prop::collection::vec(1u64..40, 0..60)) {
            let window = |of: &[u64]| {
                let mut window = Window::default();
                of.iter().for_each(|sequence| window.add(*sequence));
                window
            };
            let mut merged = window(&a);
            merged.merge(&window(&b));
            for sequence in 1..41 {
                prop_assert_eq!(window(&a).contains(sequence), a.contains(&sequence));
                prop_assert_eq!(merged.contains(sequence), a.contains(&sequence) || b.contains(&sequence));
            }
            prop_assert!((1..=merged.contiguous()).all(|sequence| merged.contains(sequence)));
            prop_assert!(!merged.contains(merged.contiguous() + 1));
            prop_assert_eq!(Window::parse(&merged.to_string()), Some(merged));
        }
    }
}
