//! [`Resolution`]: why a policy is not all that was asked for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Level, Requirement};

/// A part of a policy that two wishes can differ over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// How many replicas (r_n).
    Replicas,
    /// When a write returns (r_m).
    Ack,
    /// What matters to the cost (w_c, w_d, w_r).
    Weights,
    /// Where replicas go.
    Placement,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Replicas => "the number of replicas",
            Field::Ack => "when a write returns",
            Field::Weights => "the weights",
            Field::Placement => "where replicas go",
        })
    }
}

/// Who set a part of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The level itself, by `replicas`, `ack` or `weights`.
    Explicit(Level),
    /// A requirement of the level.
    Requirement(Requirement, Level),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Explicit(level) => write!(f, "what the {level} level says"),
            Source::Requirement(requirement, level) => write!(f, "{requirement} of the {level} level"),
        }
    }
}

/// One decision between wishes; prints as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolution {
    /// A requirement conflicts with one that stands, and has no effect at all.
    Dropped {
        /// What is dropped.
        requirement: Requirement,
        /// Who asked for it.
        level: Level,
        /// What stands.
        stands: Requirement,
        /// Who asked for that.
        above: Level,
        /// What they conflict over.
        over: Field,
    },
    /// A level above has switched the requirement off.
    SwitchedOff {
        /// Which.
        requirement: Requirement,
        /// Who asked for it.
        level: Level,
    },
    /// One part of what is asked for is already decided differently; the rest of it holds.
    Overridden {
        /// Whose wish.
        loser: Source,
        /// Whose decision.
        winner: Source,
        /// Over what.
        over: Field,
    },
    /// Two requirements that differ go together: replica 0 serves one, the other replicas serve the other.
    Shared {
        /// What replica 0 serves.
        first: Requirement,
        /// What the others serve.
        rest: Requirement,
    },
    /// Two requirements complement each other: both hold in full.
    Complement {
        /// The one that was asked for first.
        first: Requirement,
        /// The other.
        second: Requirement,
        /// What both serve.
        over: Field,
    },
    /// Two requirements of a level have weights of their own: the sum of both holds, and of any others.
    Added {
        /// The one that was asked for first.
        first: Requirement,
        /// The other.
        second: Requirement,
        /// Who asked for them.
        level: Level,
    },
    /// The number of replicas is out of the range that is configured.
    Clamped {
        /// The number asked for.
        asked: u8,
        /// The nearest allowed.
        used: u8,
    },
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resolution::Dropped { requirement, level, stands, above, over } => {
                write!(f, "{requirement} ({level}) is dropped: it conflicts with {stands} ({above}) over {over}")
            }
            Resolution::SwitchedOff { requirement, level } => {
                write!(f, "{requirement} ({level}) is switched off by a level above")
            }
            Resolution::Overridden { loser, winner, over } => {
                write!(f, "{over}: {winner} holds, not {loser}")
            }
            Resolution::Shared { first, rest } => {
                write!(
                    f,
                    "{first} and {rest} go together: replica 0 is planned for the first, the others for the second"
                )
            }
            Resolution::Complement { first, second, over } => {
                write!(f, "{first} and {second} complement each other: both serve {over}")
            }
            Resolution::Added { first, second, level } => {
                write!(f, "the weights of {first} and {second} ({level}) add up")
            }
            Resolution::Clamped { asked, used } => {
                write!(f, "{asked} replicas are out of the configured range; {used} are planned")
            }
        }
    }
}
