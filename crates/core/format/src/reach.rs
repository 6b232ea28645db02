//! How far a log must reach.

/// The file, in the store's directory and on each persistent target, that says up to which commit the log was durable.
pub const REACH_FILE: &str = "log-reach";

/// How far a log must reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The log was durable up to this commit.
    pub sequence: u64,
    /// The last commit and the checksum of a record that is in the log, durably. Each record is bound to the one before it, so a log
    /// without this record is another one. Zeros: none is known.
    pub record: (u64, u64),
}
