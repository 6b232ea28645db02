//! The time that measuring may take.

use std::sync::OnceLock;

use clap::ValueEnum;

static CHOSEN_SIZE: OnceLock<Size> = OnceLock::new();

/// The time that measuring may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Minutes.
    Quick,
    /// Less than an hour.
    Usual,
    /// As long as necessary.
    Full,
}

impl Size {
    /// Returns the chosen size.
    pub fn get() -> Size {
        *CHOSEN_SIZE.get().unwrap_or(&Size::Usual)
    }

    /// Sets the chosen size, once.
    pub fn set(self) {
        let _ = CHOSEN_SIZE.set(self);
    }

    /// Returns the value for this size.
    pub fn of<T>(self, quick: T, usual: T, full: T) -> T {
        match self {
            Size::Quick => quick,
            Size::Usual => usual,
            Size::Full => full,
        }
    }
}
