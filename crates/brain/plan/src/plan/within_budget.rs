//! [`plan_within_budget`]: a plan that stores as few bytes as possible where the budget is too small.

use super::{GaveWay, Memo, NoRoom, Plan, Want, plan};
use crate::policy::Policy;
use crate::snapshot::Snapshot;
use terrace_cost::{Costs, Weights};

/// Like [`plan`](plan()). If the budget is too small for the least number of replicas, returns the plan of that number that stores the
/// fewest bytes.
///
/// # Errors
/// [`NoRoom`].
pub fn plan_within_budget<'m>(
    want: &Want,
    snapshot: &Snapshot,
    policy: &Policy,
    costs: &Costs,
    memo: &'m mut Memo,
) -> Result<&'m Plan, NoRoom> {
    let dense = Policy {
        replicas: policy.least,
        first: Weights::ARCHIVAL,
        rest: Weights::ARCHIVAL,
        raw_first: false,
        budget: None,
        ..*policy
    };
    let is_over = |plan: &Plan| plan.gave_way.contains(&GaveWay::Budget);
    let over = policy.budget.is_some() && is_over(plan(want, snapshot, policy, costs, memo)?);
    plan(want, snapshot, if over { &dense } else { policy }, costs, memo)
}
