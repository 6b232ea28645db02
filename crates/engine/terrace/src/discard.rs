//! The permission to discard data that no commit has freed. Code that discards any asks for it first.

use crate::{Error, Result};

/// The largest share of a store's data that is discarded at once without `force`, in percent ...
const MAX_DISCARDED_PERCENT: u64 = 1;
/// ... unless it is at most this number of bytes.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// Data that is about to be discarded.
pub(crate) struct Discard<'a> {
    /// Its kind and place.
    pub what: &'a str,
    /// Why nobody needs it.
    pub why: &'a str,
    /// The number of files or frames.
    pub count: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// The size in bytes of all that the store, or the target, holds, with these.
    pub of_bytes: u64,
}

impl Discard<'_> {
    /// Allows the discard, and logs what is discarded and why.
    ///
    /// # Errors
    /// [`Error::TooMuch`] if it is much and not forced: a mistake is more likely than that much garbage.
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
