//! Knows the generation of the kernel's cached pages of each file.
//!
//! The kernel drops its pages of a file when the file is opened, unless the reply to the opening tells it to keep them. They may be kept if
//! the file's bytes are of the generation that they were of when the kernel dropped its pages for the last time: generations only grow, so
//! all pages that it has read since then are of that one.

use std::collections::HashMap;

use rustix_futex_sync::Mutex;

/// The files whose pages the kernel may have. The lock is a leaf.
#[derive(Default)]
pub struct Pages(Mutex<HashMap<u64, Read>>);

/// The pages of a file.
struct Read {
    /// The generation that the file had before the kernel dropped older pages.
    generation: u64,
    /// The handle whose opening drops them, until it is known that the kernel has done so.
    dropper: Option<u64>,
}

/// The fate of the kernel's pages when a file is opened.
#[derive(Debug, PartialEq, Eq)]
pub enum Opening {
    /// It keeps them.
    Keeps,
    /// It drops them.
    Drops {
        /// Whether the file's bytes may have changed since the kernel was told its attributes.
        is_changed: bool,
    },
}

impl Pages {
    /// Decides about the pages of a file of this generation, which gets this handle.
    pub fn open(&self, number: u64, handle: u64, generation: u64) -> Opening {
        let mut all = self.0.lock();
        let known = all.get(&number);
        // While another opening is still dropping them, the kernel may yet have older pages, and older attributes.
        let is_right = |known: &Read| known.generation == generation && known.dropper.is_none();
        if known.is_some_and(is_right) {
            return Opening::Keeps;
        }
        let is_changed = known.is_some();
        all.insert(number, Read { generation, dropper: Some(handle) });
        Opening::Drops { is_changed }
    }

    /// Notes that the opening of this handle is over. The kernel drops pages within it, so they are gone.
    pub fn has_opened(&self, number: u64, handle: u64) {
        if let Some(read) = self.0.lock().get_mut(&number)
            && read.dropper == Some(handle)
        {
            read.dropper = None;
        }
    }

    /// Forgets which pages of a file the kernel has: the next opening drops them.
    pub fn forget(&self, number: u64) {
        self.0.lock().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_NUMBER: u64 = 7;
    const FIRST_OPENING: Opening = Opening::Drops { is_changed: false };
    const CHANGED_OPENING: Opening = Opening::Drops { is_changed: true };

    #[test]
    fn pages_are_kept_while_the_generation_stays() {
        let pages = Pages::default();
        assert_eq!(pages.open(FILE_NUMBER, 1, 10), FIRST_OPENING);
        pages.has_opened(FILE_NUMBER, 1);
        assert_eq!(pages.open(FILE_NUMBER, 2, 10), Opening::Keeps);
        assert_eq!(pages.open(FILE_NUMBER, 3, 11), CHANGED_OPENING);
        pages.has_opened(FILE_NUMBER, 3);
        assert_eq!(pages.open(FILE_NUMBER, 4, 11), Opening::Keeps);
        assert_eq!(pages.open(FILE_NUMBER + 1, 5, 11), FIRST_OPENING);
        pages.forget(FILE_NUMBER);
        assert_eq!(pages.open(FILE_NUMBER, 6, 11), FIRST_OPENING);
    }

    /// Between the reply to one opening and the end of the opening, the kernel still has pages of the generation before. A second opening
    /// in that time saw the new generation, and must not keep them.
    #[test]
    fn pages_are_not_kept_before_the_kernel_has_dropped_the_older_ones() {
        let pages = Pages::default();
        pages.open(FILE_NUMBER, 1, 10);
        pages.has_opened(FILE_NUMBER, 1);
        assert_eq!(pages.open(FILE_NUMBER, 2, 11), CHANGED_OPENING);
        assert_eq!(pages.open(FILE_NUMBER, 3, 11), CHANGED_OPENING);
        // A handle of the generation before says nothing about the present one.
        pages.has_opened(FILE_NUMBER, 1);
        assert_eq!(pages.open(FILE_NUMBER, 4, 11), CHANGED_OPENING);
        // Neither does one whose opening was followed by another change.
        assert_eq!(pages.open(FILE_NUMBER, 5, 12), CHANGED_OPENING);
        pages.has_opened(FILE_NUMBER, 4);
        assert_eq!(pages.open(FILE_NUMBER, 6, 12), CHANGED_OPENING);
        pages.has_opened(FILE_NUMBER, 6);
        assert_eq!(pages.open(FILE_NUMBER, 7, 12), Opening::Keeps);
    }
}
