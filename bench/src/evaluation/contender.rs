//! The contenders: each is a configuration of the same engine.

use terrace_codec::Encoding;

use super::Job;

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

    /// Writes the configuration of a job before its tiers, for objects below `d`.
    pub fn config(self, job: &Job) -> String {
        let model = if self == Contender::Paper { "paper" } else { "measured" };
        let encoding = match self {
            Contender::Nothing | Contender::Plain | Contender::Spread => Some(Encoding::NONE),
            Contender::Fixed(encoding) | Contender::ByRawSize(encoding) | Contender::Slowest(encoding) => {
                Some(encoding)
            }
            Contender::Paper | Contender::Ours | Contender::Oracle => None,
        };
        let mut rule = format!("[[rule]]\nprefix = 'd'\nrequirements = {:?}\n", job.requirements);
        rule.push_str(&match job.budget.filter(|_| !self.is_slowest()) {
            Some(factor) => format!("budget = '{factor}x'\n"),
            None => format!("replicas = {}\n", self.replicas(job.replicas)),
        });
        if let Some(encoding) = encoding {
            rule.push_str(&format!("encoding = '{encoding}'\n"));
        }
        if self.is_slowest() {
            rule.push_str(&format!("tiers = ['{}']\n", job.profile.slowest()));
        }
        format!("[store]\nreplicas = {{ max = 9 }}\ncache = '0B'\ncost_model = '{model}'\n{rule}")
    }
}
