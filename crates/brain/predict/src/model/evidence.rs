//! The evidence about some bytes.

use serde::{Deserialize, Serialize};

use crate::analyze::{Content, Format};
use crate::candidates::CANDIDATE_COUNT;
use terrace_cost::Expected;

/// Classes of bytes on which encodings perform similarly. A class is the basis of predictions before anything is
/// measured. The discriminants are indexes into saved models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(usize)]
pub enum Class {
    /// Unknown, or bytes of many types.
    #[default]
    Unknown = 0,
    /// Compressed bytes.
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

/// The number of classes.
pub const CLASS_COUNT: usize = 7;

impl Class {
    /// Returns the class of bytes in a file of a format, with the content that the file's metadata declare, if any.
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

    /// Returns whether transforms of this element width may help. Numbers may be in records of 32 bytes, and short ones
    /// in pairs.
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

/// Measurements of some bytes, in seconds and bytes per byte.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The class of the bytes.
    pub class: Class,
    /// The entropy in bits per byte; none before the first probe.
    pub entropy: Option<f64>,
    /// The share of bytes that are text.
    pub printable: f64,
    /// The result of each candidate on the small sample.
    pub small: [Option<Expected>; CANDIDATE_COUNT],
    /// The result of each candidate on the large sample.
    pub large: [Option<Expected>; CANDIDATE_COUNT],
    /// The results on blocks of the candidates that were used since; a time of 0 was not measured.
    pub real: [Option<Expected>; CANDIDATE_COUNT],
}

impl Evidence {
    /// Returns evidence without measurements.
    pub fn none(class: Class) -> Self {
        Evidence {
            class,
            entropy: None,
            printable: 0.0,
            small: [None; CANDIDATE_COUNT],
            large: [None; CANDIDATE_COUNT],
            real: [None; CANDIDATE_COUNT],
        }
    }

    /// Adds the result of a candidate on a block; the new result has half of the weight.
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

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.entropy.is_none()
    }
}
