//! All contenders compared: all in virtual time, and the important ones for real.

use anyhow::{Context, Result};

use super::measured::{Measured, encodings};
use super::run::contest;
use super::{Contender, Data, Job, Outcome, Profile, replay};

/// The results of one job by all contenders.
pub struct Side {
    profile: Profile,
    /// The data of the job.
    pub data: Data,
    /// All contenders in virtual time.
    pub replayed: Vec<Outcome>,
    /// Some contenders for real.
    pub real: Vec<Outcome>,
    /// The contenders of the real runs in virtual time, with the bytes of the real runs.
    pub checked: Vec<Outcome>,
}

impl Side {
    /// Returns the name for rows.
    pub fn name(&self) -> String {
        format!("{}, {}", self.profile.name(), self.data.name())
    }

    /// Returns the result of one contender in virtual time.
    ///
    /// # Errors
    /// Fails if the contender did not run.
    pub fn of(&self, contender: Contender) -> Result<&Outcome> {
        self.replayed.iter().find(|outcome| outcome.contender == contender).context("nobody asked this contender")
    }
}

/// Runs a job with all contenders in virtual time, and with the important ones for real. `really` is the same job with
/// at most as many bytes, and runs `repeats` times. `counts` says which contender was best.
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
