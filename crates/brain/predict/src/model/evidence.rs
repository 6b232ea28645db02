//! What is known of some bytes.

use serde::{Deserialize, Serialize};

use crate::analyze::{Content, Format};
use crate::candidates::COUNT;
use terrace_cost::Expected;

/// Kinds of bytes on which encodings do about as well: what a guess goes by before anything is measured. The numbers
/// are places in saved models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(usize)]
pub enum Class {
    /// Nothing is known, or they are of many types.
    #[default]
    Unknown = 0,
    /// Compressed already.
    Compressed = 1,
    /// Text.
    Text = 2,
    /// Elements of two bytes.
    Two = 3,
    /// Elements of four bytes.
    Four = 4,
    /// Elements of eight bytes.
    Eight = 5,
    /// Records.
    Records = 6,
}

/// How many classes there are.
pub const CLASSES: usize = 7;

impl Class {
    /// The class of bytes in a file of some format, of which it is said what they are.
    pub fn of(format: Format, said: Option<Content>) -> Class {
        let width = match said {
            Some(Content::Numbers(elements)) => elements.element.width(),
            Some(Content::Compressed) => return Class::Compressed,
            None => 0,
        };
        match width {
            2 => Class::Two,
            4 => Class::Four,
            8 => Class::Eight,
            32 => Class::Records,
            _ if format.is_text() => Class::Text,
            _ if format == Format::Compressed => Class::Compressed,
            _ => Class::Unknown,
        }
    }

    /// Whether transforms of elements of this width may work. Numbers may stand in records of 32 bytes, and short ones in
    /// pairs.
    pub fn allows(self, width: usize) -> bool {
        match self {
            Class::Unknown => true,
            Class::Compressed | Class::Text => width == 1,
            Class::Two => width <= 4,
            Class::Four | Class::Records => matches!(width, 1 | 4 | 32),
            Class::Eight => matches!(width, 1 | 8 | 32),
        }
    }
}

impl Default for Evidence {
    fn default() -> Self {
        Evidence::none(Class::Unknown)
    }
}

/// What was measured of some bytes, in seconds and bytes for each byte.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Their class.
    pub class: Class,
    /// Bits of information in a byte; none before the first probe.
    pub entropy: Option<f64>,
    /// The share of bytes of text.
    pub printable: f64,
    /// What each candidate did to the small sample.
    pub small: [Option<Expected>; COUNT],
    /// What each candidate did to the large sample.
    pub large: [Option<Expected>; COUNT],
    /// What those that were used since really did to blocks; a time of 0 was not measured.
    pub real: [Option<Expected>; COUNT],
}

impl Evidence {
    /// Nothing yet.
    pub fn none(class: Class) -> Self {
        Evidence {
            class,
            entropy: None,
            printable: 0.0,
            small: [None; COUNT],
            large: [None; COUNT],
            real: [None; COUNT],
        }
    }

    /// Takes in what a candidate really did to a block: half of what is known of it from then on.
    pub fn realise(&mut self, at: usize, now: Expected) {
        let Some(before) = self.real[at] else {
            self.real[at] = Some(now);
            return;
        };
        let between = |before: f64, now: f64| match (before > 0.0, now > 0.0) {
            (true, true) => (before + now) / 2.0,
            _ => before.max(now),
        };
        self.real[at] = Some(Expected {
            stored: between(before.stored, now.stored),
            encode: between(before.encode, now.encode),
            decode: between(before.decode, now.decode),
        });
    }

    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.entropy.is_none()
    }
}
