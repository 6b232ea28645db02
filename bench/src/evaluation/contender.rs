//! Who replicates, and how: each a configuration of one and the same engine.

use terrace_codec::Encoding;

use super::Job;

/// One way to place and encode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contender {
    /// One replica on the slowest tier, raw.
    Nothing,
    /// All replicas on the slowest tier, raw.
    Plain,
    /// Replicas on all tiers, raw, as PRS places them.
    Spread,
    /// Replicas on all tiers under one encoding, placed by what they take.
    Fixed(Encoding),
    /// The same, placed by what it takes raw, as Hermes does. Replayed only.
    ByRawSize(Encoding),
    /// One encoding on the slowest tier.
    Slowest(Encoding),
    /// The papers' model of costs.
    Paper,
    /// The engine as it is.
    Ours,
    /// The planner with costs that were measured on these very bytes. Replayed only.
    Oracle,
}

impl Contender {
    /// In words.
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

    /// Whether it uses the slowest tier only.
    pub fn is_slowest(self) -> bool {
        matches!(self, Contender::Nothing | Contender::Plain | Contender::Slowest(_))
    }

    /// Replicas that it makes where so many are wanted.
    pub fn replicas(self, wanted: u8) -> u8 {
        if self == Contender::Nothing { 1 } else { wanted }
    }

    /// The part of a job's configuration before the tiers, for what is below `d`.
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
