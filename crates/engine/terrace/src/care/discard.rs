//! The one place through which everything passes that throws away what no commit has freed.

use crate::{Error, Result};

/// At most this share of what a store holds is thrown away at once, unless somebody forces it ...
const MAX_DISCARDED_PERCENT: u64 = 1;
/// ... or it is no more than this.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// Data that is about to be discarded.
pub(crate) struct Discard<'a> {
    /// Its kind and place.
    pub what: &'a str,
    /// Why nobody needs it.
    pub why: &'a str,
    /// How many there are.
    pub count: usize,
    /// How many bytes it takes.
    pub bytes: u64,
    /// How many bytes the store, or the target, holds with it.
    pub of_bytes: u64,
}

impl Discard<'_> {
    /// Says what is thrown away and why.
    ///
    /// # Errors
    /// [`Error::TooMuch`] where it is much and not forced: more is likely wrong than what is about to go.
    pub fn allow(&self, force: bool) -> Result<()> {
        let Discard { what, why, count, bytes, of_bytes } = *self;
        let is_much = bytes > MAX_DISCARDED_BYTES && bytes > of_bytes / 100 * MAX_DISCARDED_PERCENT;
        if is_much && !force {
            return Err(Error::TooMuch { what: what.to_owned(), why: why.to_owned(), bytes, of_bytes });
        }
        if count > 0 {
            tracing::info!(what, why, count, bytes, "discarded");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_refused_unless_it_is_forced() {
        let allow = |bytes, of_bytes, force| {
            Discard { what: "frames", why: "a test", count: 1, bytes, of_bytes }.allow(force).is_ok()
        };
        assert!(allow(64 << 20, 65 << 20, false), "64 MiB");
        assert!(allow(65 << 20, 100 << 30, false), "less than one percent");
        assert!(!allow(65 << 20, 1 << 30, false));
        assert!(allow(65 << 20, 1 << 30, true));
    }
}
