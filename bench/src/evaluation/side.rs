//! Contenders side by side: all in virtual time, and those that matter for real.

use anyhow::{Context, Result};

use super::measured::{Measured, encodings};
use super::run::contest;
use super::{Contender, Data, Job, Outcome, Profile, replay};

/// What came of one job by all contenders.
pub struct Side {
    profile: Profile,
    /// What was written.
    pub data: Data,
    /// In virtual time, by all.
    pub replayed: Vec<Outcome>,
    /// Really, by some.
    pub real: Vec<Outcome>,
    /// Likewise in virtual time, of as many bytes.
    pub checked: Vec<Outcome>,
}

impl Side {
    /// In words.
    pub fn name(&self) -> String {
        format!("{}, {}", self.profile.name(), self.data.name())
    }

    /// What came of one contender in virtual time.
    ///
    /// # Errors
    /// There is none for one that was not asked.
    pub fn of(&self, contender: Contender) -> Result<&Outcome> {
        self.replayed.iter().find(|outcome| outcome.contender == contender).context("nobody asked this contender")
    }
}

/// Has all contenders do a job in virtual time, and those that matter do `really`, the same job of as many bytes or fewer, so many
/// times. What counts says who was best.
pub fn side_by_side(job: &Job, really: &Job, counts: fn(&Outcome) -> f64, repeats: usize) -> Result<Side> {
    let everywhere = [Contender::Nothing, Contender::Plain, Contender::Spread, Contender::Paper, Contender::Ours];
    let fixed: Vec<Contender> = encodings().skip(1).map(Contender::Fixed).collect();
    let elsewhere =
        encodings().skip(1).flat_map(|encoding| [Contender::ByRawSize(encoding), Contender::Slowest(encoding)]);
    let all = everywhere.into_iter().chain(fixed.iter().copied()).chain(elsewhere).chain([Contender::Oracle]);
    let replayed = replays(job, all)?;
    let (mut real, mut checked) = (Vec::new(), Vec::new());
    if repeats > 0 {
        checked = replays(really, everywhere.into_iter().chain(fixed))?;
        let fixed = checked.iter().filter(|outcome| matches!(outcome.contender, Contender::Fixed(_)));
        let best = fixed.min_by(|a, b| counts(a).total_cmp(&counts(b))).context("no encodings")?;
        let [nothing, plain, _, paper, ours] = everywhere;
        // One plain replica is no replication.
        let plain = (really.replicas > 1).then_some(plain);
        let contenders: Vec<_> = [nothing].into_iter().chain(plain).chain([best.contender, paper, ours]).collect();
        real = contest(really, &contenders, repeats)?;
    }
    Ok(Side { profile: job.profile, data: job.data, replayed, real, checked })
}

fn replays(job: &Job, contenders: impl Iterator<Item = Contender>) -> Result<Vec<Outcome>> {
    let measured = Measured::of(job)?;
    contenders.map(|contender| replay(job, &measured, contender)).collect()
}
