//! The same jobs in virtual time: each block's replicas are planned as a contender plans them, and cost the measured
//! time of their encoding on that block.

use anyhow::Result;
use terrace::Ack;
use terrace_codec::ALL_ENCODINGS;
use terrace_cost::{Costs, Expected, Model, Objective, TargetRates};
use terrace_plan::plan::{self, Memo, NoRoom, Want};
use terrace_plan::policy::{Ask, Budget, Policy, Replicas, resolve};
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot, TargetSet};
use terrace_predict::{Predictor, Stream};
use terrace_simulate::{Choose, Knows, Piece, simulate};

use super::measured::{Block, Measured};
use super::{Contender, Job, OBJECTS_IN_FLIGHT, Outcome, Phase};
use crate::oracle::{Cost, weighed};

/// The expected number of reads of data that nobody has read.
const EXPECTED_READS: f64 = 1.0;

/// The planner of a contender.
struct Chooser<'a> {
    contender: Contender,
    policy: Policy,
    memo: Memo,
    predictor: Predictor,
    blocks: &'a [Block],
}

/// Runs a contender's job in virtual time. Each process knows the load that the others cause.
pub fn replay(job: &Job, measured: &Measured, contender: Contender) -> Result<Outcome> {
    let total = measured.total();
    let cluster = job.profile.cluster(contender, job.capacities.map(|share| share.map(|share| share * total)));
    let ack = job.phases.iter().find_map(|phase| match phase {
        Phase::Write { ack, .. } => Some(*ack),
        Phase::Read(_) => None,
    });
    let policy = contender.policy(job, &cluster.snapshot()?, ack.unwrap_or(Ack::Placed))?;
    let (memo, predictor) = (Memo::new(4096), Predictor::default());
    let mut chooser = Chooser { contender, policy, memo, predictor, blocks: &measured.blocks };
    let phases: Vec<_> = job.phases.iter().map(|phase| phase.simulated()).collect();
    let under_way = OBJECTS_IN_FLIGHT;
    let job =
        terrace_simulate::Job { cluster: &cluster, work: measured, phases: &phases, under_way, knows: Knows::All };
    let came = simulate(&job, &mut chooser)?;
    let seconds: Vec<f64> = came.phases.iter().map(|phase| phase.seconds).collect();
    let stored = came.stored() / total;
    Ok(Outcome { contender, runs: vec![seconds.clone()], seconds, stored, replicas: came.replicas })
}

impl Phase {
    fn simulated(&self) -> terrace_simulate::Phase {
        match *self {
            Phase::Write { ack, computing } => terrace_simulate::Phase::Write { ack, computing },
            Phase::Read(times) => terrace_simulate::Phase::Read(times),
        }
    }
}

impl Choose for Chooser<'_> {
    fn choose(&mut self, kind: usize, snapshot: &Snapshot, pieces: &mut Vec<Piece>) -> Result<(), NoRoom> {
        let block = &self.blocks[kind];
        let bytes = block.bytes.len();
        let costs = self.expected(block, snapshot);
        let want = Want { reads: EXPECTED_READS, ..Want::bytes(bytes as u64) };
        let planned = plan::plan(&want, snapshot, &self.policy, &costs, &mut self.memo)?;
        for (replica, placed) in planned.replicas.iter().enumerate() {
            pieces.extend(placed.iter().map(|piece| {
                let encoding = match self.contender {
                    Contender::ByRawSize(encoding) => encoding,
                    _ => piece.encoding,
                };
                // Every encoding that is planned was measured.
                let cost = block.cost(encoding).copied().unwrap_or_default();
                let share = (f64::from(piece.pages) * PAGE_BYTES as f64 / bytes as f64).min(1.0);
                Piece {
                    replica: replica as u8,
                    target: piece.target,
                    block: 0,
                    stored: (cost.stored as f64 * share) as f32,
                    room: piece.stored as f32,
                    encode: (cost.encode * share) as f32,
                    decode: (cost.decode * share) as f32,
                }
            }));
        }
        Ok(())
    }
}

impl Chooser<'_> {
    /// Returns the costs of encodings on a block that the contender expects.
    fn expected(&mut self, block: &Block, snapshot: &Snapshot) -> Costs {
        let bytes = block.bytes.len() as f64;
        let measured = |cost: &Cost| {
            let speed = |seconds: f64| bytes / seconds.max(1e-9);
            Expected::from_speeds(speed(cost.encode), speed(cost.decode), bytes / cost.stored as f64)
        };
        match self.contender {
            Contender::Nothing | Contender::Plain | Contender::Spread | Contender::ByRawSize(_) => Costs::new([]),
            Contender::Fixed(encoding) | Contender::Slowest(encoding) => {
                block.cost(encoding).map_or_else(|| Costs::new([]), |cost| Costs::only(encoding, &measured(cost)))
            }
            Contender::Oracle => {
                let chosen_from = block.costs.iter().skip(1).filter(|(encoding, _)| ALL_ENCODINGS.contains(encoding));
                Costs::new(chosen_from.map(|(encoding, cost)| (*encoding, measured(cost))))
            }
            Contender::Paper | Contender::Ours => self.predicted(block, snapshot),
        }
    }

    /// Returns the costs that the predictor expects once it has studied the block for all targets as far as that pays.
    /// A store that has seen similar bytes expects the same.
    fn predicted(&mut self, block: &Block, snapshot: &Snapshot) -> Costs {
        let mut stream = Stream::new().with_length(u64::MAX);
        for target in snapshot.targets() {
            let place = TargetRates::from_speeds(target.write, target.read, 0.0);
            self.predictor.study(&mut stream, &block.bytes, &Objective::time(place, EXPECTED_READS));
        }
        weighed(&self.predictor.expected(&stream))
    }
}

impl Contender {
    fn policy(self, job: &Job, snapshot: &Snapshot, ack: Ack) -> Result<Policy> {
        let requirements = job.requirements.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let tiers = match self.is_slowest() {
            true => Some(snapshot.tiers_named([job.profile.slowest()]).map_err(anyhow::Error::msg)?),
            false => None,
        };
        let budget = job.budget.filter(|_| !self.is_slowest()).map(Budget);
        let replicas = budget.is_none().then(|| self.replicas(job.replicas));
        let asked = Ask { requirements, replicas, budget, tiers, ..Ask::default() };
        let operation = Ask { ack: Some(ack), ..Ask::default() };
        let range = Replicas { min: 1, max: 9, default: 3 };
        let (policy, _) = resolve(&operation, &asked, &Ask::default(), range);
        let domains = snapshot.domains_up(&TargetSet::ALL);
        let model = if self == Contender::Paper { Model::Paper } else { Model::Measured };
        Ok(Policy { model, replicas: policy.replicas.min(domains), ..policy })
    }
}
