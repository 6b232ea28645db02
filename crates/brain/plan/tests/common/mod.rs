//! A slow and obvious planner: it tries every target and encoding for every replica, page after page.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::HashMap;

use terrace_cost::{Costs, TargetRates, Work};
use terrace_plan::plan::{GaveWay, Piece, Plan, Want};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot};

/// The cost that counts first, followed by the second one.
pub type Cost = (u64, u64);

/// The target and the encoding of one replica.
type Choice = (usize, usize);

/// Makes pieces from random numbers: of each the start, the pages, the target and the encoding.
pub fn make_pieces(described: &[(u32, u32, usize, usize)], targets: usize, costs: &Costs) -> Vec<Piece> {
    let piece = |&(start, pages, target, encoding): &(u32, u32, usize, usize)| {
        let of = &costs.rates()[encoding % costs.rates().len()];
        let (encoding, stored) = (of.encoding, u64::from(of.page) * u64::from(pages));
        Piece { start, pages, target: (target % targets) as u16, encoding, stored }
    };
    described.iter().map(piece).collect()
}

/// The conditions of an attempt.
#[derive(Clone, Copy, Debug)]
struct Terms {
    replicas: usize,
    pieces: usize,
    raw_first: bool,
    distinct_tiers: bool,
    any_target: bool,
    budget: bool,
}

/// A placement of the pages so far, reduced to the parts that affect later pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    /// The target of each replica's last page.
    last: [Choice; MAX_REPLICAS_AND_TARGETS],
    /// The number of pieces of each replica.
    pieces: [usize; MAX_REPLICAS_AND_TARGETS],
    free: [u64; MAX_REPLICAS_AND_TARGETS],
    budget: u64,
}

/// The maximum number of replicas, and of targets.
const MAX_REPLICAS_AND_TARGETS: usize = 4;

/// There are too many schemes to enumerate.
#[derive(Debug)]
pub struct TooMany;

pub struct Problem<'a> {
    pub want: Want,
    pub snapshot: &'a Snapshot,
    pub policy: &'a Policy,
    pub costs: &'a Costs,
    pub present: &'a [Piece],
    /// The usable bytes of each target.
    pub space: Vec<u64>,
}

impl Problem<'_> {
    pub fn pages(&self) -> u64 {
        self.want.bytes.div_ceil(PAGE_BYTES).max(1)
    }

    /// Lists the attempts in order, each with the wishes that it drops.
    fn attempts(&self) -> Vec<(Terms, Vec<GaveWay>)> {
        let policy = self.policy;
        let lanes: usize = self.snapshot.targets().iter().map(|target| usize::from(target.lanes)).sum();
        let (tiers, targets) = (self.snapshot.tiers().len(), self.snapshot.targets().len());
        let mut attempts = Vec::new();
        for replicas in (1..=usize::from(policy.replicas)).rev() {
            let mut terms = Terms {
                replicas,
                pieces: tiers.min(lanes).max(1),
                raw_first: policy.raw_first,
                distinct_tiers: policy.distinct_tiers,
                any_target: false,
                budget: policy.budget.is_some() && replicas >= policy.least.into(),
            };
            let mut given = Vec::new();
            attempts.push((terms, given.clone()));
            let mut give = |way: GaveWay, applies: bool, change: &dyn Fn(&mut Terms)| {
                if applies {
                    change(&mut terms);
                    given.push(way);
                    attempts.push((terms, given.clone()));
                }
            };
            give(GaveWay::RawFirst, policy.raw_first, &|terms| terms.raw_first = false);
            give(GaveWay::DistinctTiers, policy.distinct_tiers, &|terms| terms.distinct_tiers = false);
            give(GaveWay::Pieces, tiers.min(lanes).max(1) < targets, &|terms| terms.pieces = targets);
            give(GaveWay::Targets, policy.any_target, &|terms| terms.any_target = true);
            let least = policy.budget.is_some() && replicas == usize::from(policy.least);
            give(GaveWay::Budget, least, &|terms| terms.budget = false);
        }
        attempts
    }

    /// Returns a scheme that is better than the plan: one of an earlier attempt, or a cheaper one of the same attempt.
    pub fn better(&self, plan: Option<&Plan>) -> Result<Option<String>, TooMany> {
        for (terms, given) in self.attempts() {
            let same = plan.filter(|plan| plan.replicas.len() == terms.replicas && plan.gave_way.to_vec() == given);
            let limit = same.map_or((u64::MAX, u64::MAX), |plan| (plan.cost.first, plan.cost.then));
            if let Some(cost) = self.cheapest(&terms, limit)? {
                return Ok(Some(format!("{terms:?} is possible for {cost:?}")));
            }
            if same.is_some() {
                return Ok(None);
            }
        }
        Ok(plan.map(|_| "an attempt that is none".to_string()))
    }

    /// Returns the cost of the obvious planner's plan, and the attempt that found it.
    pub fn best(&self) -> Result<Option<(Cost, usize)>, TooMany> {
        for (index, (terms, _)) in self.attempts().into_iter().enumerate() {
            if let Some(cost) = self.cheapest(&terms, (u64::MAX, u64::MAX))? {
                return Ok(Some((cost, index)));
            }
        }
        Ok(None)
    }

    /// Returns the attempt that found a plan.
    pub fn attempt_of(&self, plan: &Plan) -> usize {
        let same = |(terms, given): &(Terms, Vec<GaveWay>)| {
            terms.replicas == plan.replicas.len() && *given == plan.gave_way.to_vec()
        };
        self.attempts().iter().position(same).expect("an attempt")
    }

    /// Returns the fixed cost and the cost per page of a replica there.
    fn price(&self, replica: usize, (target, encoding): Choice) -> Cost {
        let weights = if replica == 0 { &self.policy.first } else { &self.policy.rest };
        let reads = if replica == 0 || self.policy.distinct_tiers { self.want.reads } else { 0.0 };
        let idle = self.snapshot.rates()[target];
        let wait = if self.policy.spread { 1.0 + idle.load } else { 1.0 };
        let (read, write, latency) = (idle.read * wait, idle.write * wait, idle.latency * wait);
        let Work { read: reading, write: writing, latency: each } = idle.work;
        let work = Work { read: reading * wait, write: writing * wait, latency: each * wait };
        let rates = TargetRates { read, write, latency, work, ..idle };
        let cost = self.policy.cost_model()(&rates, &self.costs.rates()[encoding].expected, weights, reads);
        ((cost.fixed * 1e12).round() as u64, (cost.per_byte * 4096.0 * 1e12).round() as u64)
    }

    fn allowed(&self, terms: &Terms, replica: usize, (target, encoding): Choice) -> bool {
        let of = &self.snapshot.targets()[target];
        let persistent = self.snapshot.tiers()[usize::from(of.tier)].persistent;
        let last = replica + 1 == terms.replicas;
        let durable = self.policy.is_all_persistent();
        let slow = replica == 0 && self.policy.max_latency.is_some_and(|most| of.latency > most);
        of.up
            && self.want.targets.has(target)
            && (terms.any_target || (self.policy.tiers.has(of.tier) && !slow))
            && !(encoding > 0 && (of.plain || (replica == 0 && terms.raw_first)))
            && (persistent || !(durable || last && !self.policy.volatile))
    }

    /// Returns whether a page is stored there already.
    fn kept(&self, page: u64, (target, encoding): Choice) -> bool {
        let encoding = self.costs.rates()[encoding].encoding;
        let same = |piece: &&Piece| usize::from(piece.target) == target && piece.encoding == encoding;
        self.present.iter().filter(same).any(|piece| (piece.start.into()..piece.end().into()).contains(&page))
    }

    fn cheapest(&self, terms: &Terms, limit: Cost) -> Result<Option<Cost>, TooMany> {
        let (pages, replicas) = (self.pages(), terms.replicas);
        let targets = self.snapshot.targets().len();
        let encodings = self.costs.rates().len();
        let all: Vec<Choice> = (0..targets).flat_map(|t| (0..encodings).map(move |e| (t, e))).collect();
        let allowed = |r| all.iter().copied().filter(move |c| self.allowed(terms, r, *c)).collect::<Vec<_>>();
        let choices: Vec<Vec<Choice>> = (0..replicas).map(allowed).collect();
        let prices: Vec<HashMap<Choice, Cost>> =
            choices.iter().enumerate().map(|(r, of)| of.iter().map(|c| (*c, self.price(r, *c))).collect()).collect();
        let least = self.least_page(terms, &choices, &prices);
        let budget = self.policy.budget.filter(|_| terms.budget);
        let budget = budget.map_or(u64::MAX, |budget| (budget.0 * (pages * PAGE_BYTES) as f64) as u64);
        let mut free = [0; MAX_REPLICAS_AND_TARGETS];
        free[..targets].copy_from_slice(&self.space);
        let start = State {
            last: [(usize::MAX, 0); MAX_REPLICAS_AND_TARGETS],
            pieces: [0; MAX_REPLICAS_AND_TARGETS],
            free,
            budget,
        };
        let mut states = HashMap::from([(start, (0, 0))]);
        for page in 0..pages {
            // At most one of two replicas takes a page there, so more space makes no difference.
            let left = pages - page - 1;
            let mut next: HashMap<State, Cost> = HashMap::new();
            for (state, cost) in states {
                let mut partial = vec![(state, cost)];
                for replica in 0..replicas {
                    let mut extended = Vec::new();
                    for (state, cost) in &partial {
                        for &choice in &choices[replica] {
                            let price = prices[replica][&choice];
                            let put = self.put(page, replica, choice, terms, price, state, *cost);
                            let hopeful =
                                |(_, cost): &(State, Cost)| (cost.0 + left * least.0, cost.1 + left * least.1) < limit;
                            extended.extend(put.filter(hopeful));
                        }
                    }
                    partial = extended;
                }
                for (mut state, cost) in partial {
                    state.free.iter_mut().for_each(|free| *free = (*free).min(left * PAGE_BYTES));
                    let best = next.entry(state).or_insert(cost);
                    *best = cost.min(*best);
                }
                if next.len() > 30_000 {
                    return Err(TooMany);
                }
            }
            states = next;
        }
        Ok(states.into_values().min())
    }

    /// Returns a lower bound of the cost of a page of all replicas, for any targets that do not exclude each other.
    fn least_page(&self, terms: &Terms, choices: &[Vec<Choice>], prices: &[HashMap<Choice, Cost>]) -> Cost {
        let mut pages = vec![(Vec::new(), (0, 0))];
        for replica in 0..terms.replicas {
            let mut extended = Vec::new();
            for (others, cost) in &pages {
                for choice in choices[replica].iter().filter(|choice| !self.meets(terms, others, **choice)) {
                    let mut cost: Cost = *cost;
                    *self.part(replica, &mut cost) += staying(prices[replica][choice].1);
                    let others: Vec<Choice> = others.iter().copied().chain([*choice]).collect();
                    extended.push((others, cost));
                }
            }
            pages = extended;
        }
        let least = |part: fn(&Cost) -> u64| pages.iter().map(|(_, cost)| part(cost)).min().unwrap_or(0);
        (least(|cost| cost.0), least(|cost| cost.1))
    }

    /// Returns whether a page of another replica excludes this choice.
    fn meets(&self, terms: &Terms, others: &[Choice], choice: Choice) -> bool {
        let of = |target: usize| &self.snapshot.targets()[target];
        others.iter().any(|other| {
            of(other.0).domain == of(choice.0).domain || (terms.distinct_tiers && of(other.0).tier == of(choice.0).tier)
        })
    }

    /// Returns the part of the cost that a replica contributes to.
    fn part<'c>(&self, replica: usize, cost: &'c mut Cost) -> &'c mut u64 {
        if replica == 0 || !self.policy.is_async() { &mut cost.0 } else { &mut cost.1 }
    }

    /// Adds one page to a replica.
    #[expect(clippy::too_many_arguments, reason = "all of it matters")]
    fn put(
        &self,
        page: u64,
        replica: usize,
        choice: Choice,
        terms: &Terms,
        (fixed, per_page): Cost,
        state: &State,
        mut cost: Cost,
    ) -> Option<(State, Cost)> {
        let of = |target: usize| &self.snapshot.targets()[target];
        if self.meets(terms, &state.last[..replica], choice) {
            return None;
        }
        let (stored, kept) = (u64::from(self.costs.rates()[choice.1].page), self.kept(page, choice));
        let mut state = *state;
        state.free[choice.0] = state.free[choice.0].checked_sub(if kept { 0 } else { stored })?;
        if state.budget < u64::MAX {
            state.budget = state.budget.checked_sub(stored)?;
        }
        let price = |price: u64| if kept { staying(price) } else { price };
        *self.part(replica, &mut cost) += price(per_page);
        if state.last[replica] != choice {
            // A plain target holds a whole replica or nothing.
            if page > 0 && (of(choice.0).plain || of(state.last[replica].0).plain) {
                return None;
            }
            state.last[replica] = choice;
            state.pieces[replica] += 1;
            if state.pieces[replica] > terms.pieces {
                return None;
            }
            *self.part(replica, &mut cost) += price(fixed);
        }
        Some((state, cost))
    }

    /// Checks that a plan is valid and reports its cost correctly.
    pub fn check(&self, plan: &Plan) {
        let terms = self.attempts()[self.attempt_of(plan)].0;
        let mut free = self.space.clone();
        let (mut cost, mut moves) = ((0, 0), 0);
        for (replica, pieces) in plan.replicas.iter().enumerate() {
            let mut next = 0;
            assert!(pieces.len() <= terms.pieces, "{pieces:?}");
            for piece in pieces {
                assert_eq!(piece.start, next, "pieces follow one another");
                next = piece.end();
                let encoding = self.costs.rates().iter().position(|of| of.encoding == piece.encoding);
                let choice = (usize::from(piece.target), encoding.expect("an encoding that was given"));
                assert!(self.allowed(&terms, replica, choice), "{piece:?}");
                let stored = u64::from(self.costs.rates()[choice.1].page);
                assert_eq!(piece.stored, stored * u64::from(piece.pages));
                let (fixed, per_page) = self.price(replica, choice);
                let begins = self.kept(piece.start.into(), choice);
                let part = self.part(replica, &mut cost);
                *part += if begins { staying(fixed) } else { fixed };
                for page in piece.start..piece.end() {
                    let kept = self.kept(page.into(), choice);
                    *part += if kept { staying(per_page) } else { per_page };
                    let new = if kept { 0 } else { stored };
                    free[choice.0] = free[choice.0].checked_sub(new).expect("it fits");
                    moves += new;
                }
            }
            assert_eq!(u64::from(next), self.pages(), "all pages are covered");
        }
        assert_eq!(cost, (plan.cost.first, plan.cost.then));
        assert_eq!(moves, plan.moves);
        if let (Some(budget), true) = (self.policy.budget, terms.budget) {
            assert!(plan.stored() as f64 <= budget.0 * (self.pages() * PAGE_BYTES) as f64);
        }
        self.check_extents(plan, &terms);
    }

    fn check_extents(&self, plan: &Plan, terms: &Terms) {
        let targets = self.snapshot.targets();
        let mut bytes = 0;
        plan.extents(self.want.bytes, |offset, length, pieces| {
            assert_eq!(offset, bytes);
            bytes += length;
            assert_eq!(pieces.len(), plan.replicas.len());
            for (i, piece) in pieces.iter().enumerate() {
                let of = |target: u16| &targets[usize::from(target)];
                for other in &pieces[..i] {
                    assert_ne!(of(other.target).domain, of(piece.target).domain);
                    assert!(!terms.distinct_tiers || of(other.target).tier != of(piece.target).tier);
                }
            }
        });
        assert_eq!(bytes, self.want.bytes);
    }
}

/// Returns the reduced price of replicas that stay where they are.
fn staying(price: u64) -> u64 {
    price - price / 20
}
