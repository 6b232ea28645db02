//! The store's way to choose: its planner weighs the predictor's expectations, for one tier.

use terrace_cost::{Costs, Objective};
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{Snapshot, Target, Tier};
use terrace_predict::{Choice, Predictor, Stream};

/// A store asks the predictor again after this many outcomes.
const OUTCOMES_PER_PREDICTION: u32 = 8;

/// The state of a store for one stream, and the tier that it plans for.
pub struct Planned {
    choices: Vec<Choice>,
    costs: Costs,
    outcomes: u32,
    snapshot: Snapshot,
    policy: Policy,
    memo: Memo,
}

impl Planned {
    /// Plans for a tier with enough room for everything.
    pub fn new(objective: &Objective) -> Planned {
        let tier = Tier { name: "tier".into(), persistent: true, watts: 0.0 };
        let target = Target {
            tier: 0,
            domain: 0,
            read: 1.0 / objective.target.read,
            write: 1.0 / objective.target.write,
            latency: objective.target.latency,
            free: u64::MAX,
            reserved: 0,
            load: 0.0,
            lanes: 1,
            plain: false,
            near: false,
            up: true,
        };
        let policy = Policy { replicas: 1, first: objective.weights, ..Policy::default() };
        let snapshot = Snapshot::new(vec![tier], vec![target], 0.0).expect("one target");
        Planned { choices: Vec::new(), costs: Costs::new([]), outcomes: 0, snapshot, policy, memo: Memo::new(4096) }
    }

    /// Forgets the previous stream.
    pub fn begin(&mut self) {
        (self.choices, self.costs, self.outcomes) = (Vec::new(), Costs::new([]), 0);
    }

    /// Chooses for the next block of a stream.
    pub fn choose(
        &mut self,
        predictor: &mut Predictor,
        stream: &mut Stream,
        block: &[u8],
        objective: &Objective,
    ) -> Choice {
        if predictor.study(stream, block, objective)
            || self.outcomes >= OUTCOMES_PER_PREDICTION
            || self.choices.is_empty()
        {
            self.choices = predictor.expected(stream);
            self.costs = weighed(&self.choices).steady(&self.costs);
            self.outcomes = 0;
        }
        self.outcomes += 1;
        let want = Want { reads: objective.reads, ..Want::bytes(block.len() as u64) };
        let planned = plan(&want, &self.snapshot, &self.policy, &self.costs, &mut self.memo).expect("room");
        let encoding = planned.replicas[0][0].encoding;
        let chosen = self.choices.iter().find(|choice| choice.encoding == encoding);
        *chosen.or(self.choices.first()).expect("raw is always possible")
    }
}

/// Converts expectations to the planner's costs.
pub fn weighed(choices: &[Choice]) -> Costs {
    Costs::new(choices.iter().map(|choice| (choice.encoding, choice.weighed())))
}
