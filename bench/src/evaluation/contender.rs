//! The contenders: each is a configuration of the same engine.

use terrace_codec::Encoding;

/// A way to place and encode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contender {
    /// One raw replica on the slowest tier.
    Nothing,
    /// All replicas on the slowest tier, raw.
    Plain,
    /// Raw replicas on all tiers, as PRS places them.
    Spread,
    /// Replicas on all tiers with one encoding, placed by encoded size.
    Fixed(Encoding),
    /// Replicas on all tiers with one encoding, placed by raw size, as Hermes does. Only replayed.
    ByRawSize(Encoding),
    /// One encoding on the slowest tier.
    Slowest(Encoding),
    /// The papers' cost model.
    Paper,
    /// The engine without changes.
    Ours,
    /// The planner with costs that were measured on the same bytes. Only replayed.
    Oracle,
}

impl Contender {
    /// Returns the name for rows.
    pub fn name(self) -> String {
        match self {
            Contender::Nothing => "no replication".into(),
            Contender::Plain => "plain replicas".into(),
            Contender::Spread => "on all tiers, raw".into(),
            Contender::Fixed(encoding) => format!("{encoding} everywhere"),
            Contender::ByRawSize(encoding) => format!("{encoding} everywhere, placed by raw size"),
            Contender::Slowest(encoding) => format!("{encoding} on the slowest"),
            Contender::Paper => "the papers' model".into(),
            Contender::Ours => "Terrace".into(),
            Contender::Oracle => "the oracle".into(),
        }
    }

    /// Returns whether it uses only the slowest tier.
    pub fn is_slowest(self) -> bool {
        matches!(self, Contender::Nothing | Contender::Plain | Contender::Slowest(_))
    }

    /// Returns the number of replicas that it makes if `wanted` are requested.
    pub fn replicas(self, wanted: u8) -> u8 {
        if self == Contender::Nothing { 1 } else { wanted }
    }
}
