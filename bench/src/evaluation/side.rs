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

/// Has all contenders do a job in virtual time, and those that matter for real, so many times. What counts says who was best.
pub fn side_by_side(job: &Job, counts: fn(&Outcome) -> f64, repeats: usize) -> Result<Side> {
    let measured = Measured::of(job)?;
    let everywhere = [Contender::Nothing, Contender::Plain, Contender::Spread, Contender::Paper, Contender::Ours];
    let fixed = encodings().skip(1).flat_map(|encoding| {
        [Contender::Fixed(encoding), Contender::ByRawSize(encoding), Contender::Slowest(encoding)]
    });
    let all = everywhere.into_iter().chain(fixed).chain([Contender::Oracle]);
    let replayed: Vec<Outcome> = all.map(|contender| replay(job, &measured, contender)).collect::<Result<_>>()?;
    let mut real = Vec::new();
    if repeats > 0 {
        let fixed = replayed.iter().filter(|outcome| matches!(outcome.contender, Contender::Fixed(_)));
        let best = fixed.min_by(|a, b| counts(a).total_cmp(&counts(b))).context("no encodings")?;
        let [nothing, plain, _, paper, ours] = everywhere;
        real = contest(job, &[nothing, plain, best.contender, paper, ours], repeats)?;
    }
    Ok(Side { profile: job.profile, data: job.data, replayed, real })
}
