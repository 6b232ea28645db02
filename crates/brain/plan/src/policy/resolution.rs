//! [`Resolution`]: a difference between a policy and its requirements.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Field, Level, Requirement};

/// The origin of a part of the policy.
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

/// A decision between requirements. It is displayed as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolution {
    /// A requirement conflicts with an accepted one, and has no effect.
    Dropped {
        /// The dropped requirement.
        requirement: Requirement,
        /// The level that asked for it.
        level: Level,
        /// The accepted requirement.
        stands: Requirement,
        /// The level that asked for the accepted requirement.
        above: Level,
        /// The field over which they conflict.
        over: Field,
    },
    /// A higher level switched the requirement off.
    SwitchedOff {
        /// The requirement.
        requirement: Requirement,
        /// The level that asked for it.
        level: Level,
    },
    /// A part of a requirement is already decided differently; its other parts apply.
    Overridden {
        /// The origin of the wish that has no effect.
        loser: Source,
        /// The origin of the decision that applies.
        winner: Source,
        /// The field.
        over: Field,
    },
    /// Two different requirements apply to different replicas: one to replica 0, the other to the other replicas.
    Shared {
        /// The requirement that replica 0 serves.
        first: Requirement,
        /// The requirement that the other replicas serve.
        rest: Requirement,
    },
    /// Two requirements complement each other; both apply in full.
    Complement {
        /// The one that was asked for first.
        first: Requirement,
        /// The other.
        second: Requirement,
        /// The field that both serve.
        over: Field,
    },
    /// Two requirements of a level set weights; the policy uses the sum of the weights of all its requirements.
    Added {
        /// The one that was asked for first.
        first: Requirement,
        /// The other.
        second: Requirement,
        /// The level that asked for them.
        level: Level,
    },
    /// The number of replicas is outside the configured range.
    Clamped {
        /// The requested number.
        asked: u8,
        /// The nearest allowed number.
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
