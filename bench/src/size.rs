//! How long measuring may take.

use std::sync::OnceLock;

use clap::ValueEnum;

static SIZE: OnceLock<Size> = OnceLock::new();

/// How long measuring may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Minutes.
    Quick,
    /// Less than an hour.
    Usual,
    /// As long as it takes.
    Full,
}

impl Size {
    /// What was asked for.
    pub fn get() -> Size {
        *SIZE.get().unwrap_or(&Size::Usual)
    }

    /// Says so, once.
    pub fn set(self) {
        let _ = SIZE.set(self);
    }

    /// What goes with it.
    pub fn of<T>(self, quick: T, usual: T, full: T) -> T {
        match self {
            Size::Quick => quick,
            Size::Usual => usual,
            Size::Full => full,
        }
    }
}
