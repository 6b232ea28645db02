//! The order of attempts: fewer and fewer replicas, and for each number the wishes that are dropped for it.

use smallvec::SmallVec;

use super::Want;
use super::bound::Bound;
use super::candidates::{Candidate, Terms, fill_candidates};
use super::goal::{Goal, NO_TARGET};
use super::held::{collect_held, count_kept_pages, hash_pieces};
use super::members::select_members;
use super::memo::{Key, Memo};
use super::offers::{Offers, OffersKey};
use super::scheme::{GaveWay, Piece, Plan, max_pieces};
use super::search::search;
use super::work::{Search, build_bounds};
use crate::mix::mix;
use crate::policy::Replicas;
use crate::snapshot::{PAGE_BYTES, Snapshot, TargetSet};
use terrace_cost::Costs;

/// Makes the plan for a request; the plan has no replicas if there is no room.
pub(super) fn make_plan(
    want: &Want,
    key: &Key,
    present: &[Piece],
    snapshot: &Snapshot,
    costs: &Costs,
    memo: &mut Memo,
    plan: &mut Plan,
) {
    let Some(members) = select_members(want, present, snapshot, &key.offers.policy, memo.targets) else {
        return search_plan(&key.offers, key.pages, &want.targets, present, snapshot, costs, memo, plan);
    };
    let present = members.translate(present);
    let hash = members.indexes.iter().fold(key.offers.snapshot, |hash, index| mix(hash, u64::from(*index)));
    let offers = OffersKey { snapshot: hash, present: hash_pieces(&present), ..key.offers };
    search_plan(&offers, key.pages, &TargetSet::ALL, &present, &members.snapshot, costs, memo, plan);
    for piece in plan.replicas.iter_mut().flatten() {
        piece.target = members.indexes[usize::from(piece.target)];
    }
}

/// Makes the plan on all targets of a snapshot that a search considers.
#[expect(clippy::too_many_arguments, reason = "the parts of a request, and of the planner's state")]
fn search_plan(
    key: &OffersKey,
    pages: u32,
    targets: &TargetSet,
    present: &[Piece],
    snapshot: &Snapshot,
    costs: &Costs,
    memo: &mut Memo,
    plan: &mut Plan,
) {
    let policy = &key.policy;
    *plan = Plan { pages, wanted: policy.replicas, proven: true, ..Plan::default() };
    let Search { present: pieces, held, .. } = &mut memo.search;
    collect_held(present, costs, pages, pieces, held);
    let offers = memo.offers.get(key, snapshot, costs, &memo.search.held);
    for replicas in (1..=policy.replicas.min(Replicas::MAX_COUNT).min(snapshot.domains_up(targets))).rev() {
        let strict = Terms {
            snapshot,
            policy,
            targets,
            pages,
            replicas,
            pieces: max_pieces(snapshot),
            raw_first: policy.raw_first,
            distinct_tiers: policy.distinct_tiers,
            any_target: false,
            budget: policy.budget.is_some() && replicas >= policy.least,
        };
        for (terms, gave_way) in relax_step_by_step(strict) {
            if attempt_plan(&terms, offers, costs, &mut memo.search, memo.steps, plan) {
                plan.gave_way = gave_way;
                return;
            }
        }
    }
}

/// Returns the terms to try for a number of replicas; each entry drops one more wish.
fn relax_step_by_step(strict: Terms) -> SmallVec<[(Terms, SmallVec<[GaveWay; 4]>); 6]> {
    let Terms { snapshot, policy, replicas, pieces, .. } = strict;
    let [targets, _] = snapshot.counts();
    let steps = [
        (GaveWay::RawFirst, policy.raw_first),
        (GaveWay::DistinctTiers, policy.distinct_tiers),
        (GaveWay::Pieces, pieces < targets),
        (GaveWay::Targets, policy.any_target),
        (GaveWay::Budget, policy.budget.is_some() && replicas == policy.least),
    ];
    let mut ladder: SmallVec<[_; 6]> = SmallVec::new();
    let (mut terms, mut given) = (strict, SmallVec::new());
    ladder.push((terms, SmallVec::new()));
    for (step, _) in steps.into_iter().filter(|(_, applies)| *applies) {
        match step {
            GaveWay::RawFirst => terms.raw_first = false,
            GaveWay::DistinctTiers => terms.distinct_tiers = false,
            GaveWay::Pieces => terms.pieces = targets,
            GaveWay::Targets => terms.any_target = true,
            GaveWay::Budget => terms.budget = false,
        }
        given.push(step);
        ladder.push((terms, given.clone()));
    }
    ladder
}

/// Searches for a plan on these terms and stores it in `plan`; returns whether there is one.
fn attempt_plan(terms: &Terms, offers: &Offers, costs: &Costs, work: &mut Search, steps: u32, plan: &mut Plan) -> bool {
    let &Terms { snapshot, policy, pages, replicas, .. } = terms;
    let enough = u64::from(pages) * PAGE_BYTES;
    work.free.clear();
    work.free.extend((0..snapshot.targets().len()).map(|target| snapshot.space(target, enough)));
    work.domains.clear();
    work.domains.resize(snapshot.targets().len(), pages);
    find_twins(terms, work);
    let Search { lists: [first, rest], free, held, .. } = work;
    fill_candidates(terms, true, &offers.classes[0], held, free, first);
    rest.clear();
    if replicas > 1 {
        fill_candidates(terms, false, &offers.classes[1], held, free, rest);
    }
    let budget = policy.budget.filter(|_| terms.budget).map(|budget| (budget.0 * enough as f64) as u64);
    let goal = Goal {
        pages,
        replicas: replicas.into(),
        pieces: terms.pieces,
        is_async: policy.is_async(),
        last_persistent: !policy.volatile && replicas > 2,
        budget: budget.unwrap_or(u64::MAX),
        steps,
    };
    prepare_bounds(&goal, work);
    let (cost, proven) = search(goal, work);
    plan.proven &= proven;
    let Some(cost) = cost else { return false };
    plan.cost = cost;
    plan.replicas.clear();
    for (index, placed) in work.best[..usize::from(replicas)].iter().enumerate() {
        let piece = |placed: &super::goal::Placed| {
            let candidate = &work.lists[index.min(1)][usize::from(placed.candidate)];
            let pages = placed.end - placed.start;
            let stays = count_kept_pages(&work.held, candidate.target, candidate.encoding, placed.start, placed.end);
            plan.moves += u64::from(pages - stays) * u64::from(candidate.stored);
            Piece {
                start: placed.start,
                pages,
                target: candidate.target.into(),
                encoding: costs.rates()[usize::from(candidate.encoding)].encoding,
                stored: u64::from(pages) * u64::from(candidate.stored),
            }
        };
        plan.replicas.push(placed.iter().map(piece).collect());
    }
    true
}

/// Finds for each target the preceding target that is interchangeable with it in every plan.
fn find_twins(terms: &Terms, work: &mut Search) {
    let Search { free, held, twins, .. } = work;
    let &Terms { snapshot, policy, targets, .. } = terms;
    let holds = |target: usize| held.iter().any(|held| usize::from(held.target) == target);
    twins.clear();
    for target in 0..free.len() {
        let alike = |other: &usize| free[*other] == free[target] && snapshot.are_twins(*other, target, targets, policy);
        let before = if holds(target) { None } else { (0..target).rev().find(|other| alike(other) && !holds(*other)) };
        twins.push(before.map_or(NO_TARGET, |other| other as u8));
    }
}

/// Builds the bounds and orders the candidates. Under a budget, both use the byte price at which the bound is sharpest.
fn prepare_bounds(goal: &Goal, work: &mut Search) {
    work.densest = work.lists.iter().flatten().map(|candidate| candidate.stored.into()).min().unwrap_or(1);
    let mut price = 0.0;
    if goal.budget < u64::MAX {
        Bound::byte_prices(&work.lists, &mut work.byte_prices);
        price = find_sharpest_byte_price(goal, work);
    }
    let prices = [if goal.is_async { 0.0 } else { price }, price];
    build_bounds(goal, work, prices);
    for (list, price) in work.lists.iter_mut().zip(prices) {
        let weight = |candidate: &Candidate| {
            let bytes = u64::from(candidate.stored) * u64::from(goal.pages);
            let (fixed, per_page) = candidate.least_prices();
            (fixed + per_page * u64::from(goal.pages)) as f64 + price * bytes as f64
        };
        list.sort_unstable_by(|a, b| {
            weight(a).total_cmp(&weight(b)).then((a.target, a.encoding).cmp(&(b.target, b.encoding)))
        });
    }
}

/// Finds the byte price at which the bound of the other replicas is highest. The bound first rises with the price, then
/// falls, so a binary search finds it.
fn find_sharpest_byte_price(goal: &Goal, work: &mut Search) -> f64 {
    let Search { lists, bounds, byte_prices, free, domains, densest, held, .. } = work;
    let rest = (goal.replicas as u64 - 1) * u64::from(goal.pages);
    // Replica 0 takes at least this part of the budget from the others.
    let bytes = goal.budget.saturating_sub(*densest * u64::from(goal.pages));
    let mut least = |index: usize| {
        bounds[1].build(&[(&lists[1], 0.0)], held, goal.pages, byte_prices[index]);
        bounds[1].least(rest, free, domains, bytes)
    };
    let (mut low, mut high) = (0, byte_prices.len() - 1);
    while low < high {
        let middle = (low + high) / 2;
        if least(middle) < least(middle + 1) { low = middle + 1 } else { high = middle }
    }
    byte_prices[low]
}
