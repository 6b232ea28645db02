//! `[[policy]]`: the keys of a store's configuration rule, as a policy.

use serde::Deserialize;
use terrace::Encoding;
use terrace::config::Time;
use terrace_cost::Model;
use terrace_plan::policy::{Ack, Ask, Policy, Replicas, resolve};
use terrace_plan::snapshot::{Snapshot, Target, TargetSet};
use terrace_simulate::{Kind, Noted};

use super::error::DescriptionError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    pub name: String,
    #[serde(default)]
    requirements: Vec<String>,
    replicas: Option<u8>,
    ack: Option<Ack>,
    weights: Option<String>,
    budget: Option<String>,
    max_latency: Option<Time>,
    tiers: Option<Vec<String>>,
    encoding: Option<String>,
    #[serde(default)]
    volatile: bool,
    #[serde(default)]
    cost_model: Model,
}

impl Asked {
    /// Converts the keys as a store does for a rule, and returns the requirements that cannot hold.
    pub fn policy(&self, snapshot: &Snapshot) -> Result<(Policy, Vec<String>), DescriptionError> {
        let wrong = |reason: String| DescriptionError::Policy { policy: self.name.clone(), reason };
        let parsed = |text: &String| text.parse().map_err(|e| wrong(format!("{e}")));
        let weights = self.weights.as_ref().map(|text| text.parse().map_err(|e| wrong(format!("{e}"))));
        let budget = self.budget.as_ref().map(|text| text.parse().map_err(|e| wrong(format!("{e}"))));
        let named = |names: &Vec<String>| {
            let none = |name: &str| wrong(format!("no tier is named {name:?}; name one of those described"));
            snapshot.tiers_named(names.iter().map(String::as_str)).map_err(none)
        };
        if let Some(replicas) = self.replicas.filter(|replicas| !(1..=Replicas::MAX_COUNT).contains(replicas)) {
            return Err(wrong(format!("replicas = {replicas}; give 1 to {}", Replicas::MAX_COUNT)));
        }
        if self.tiers.as_ref().is_some_and(Vec::is_empty) {
            return Err(wrong("tiers = [] leaves no tier to write to; name some, or leave `tiers` out".into()));
        }
        let asked = Ask {
            requirements: self.requirements.iter().map(parsed).collect::<Result<_, _>>()?,
            replicas: self.replicas,
            ack: self.ack,
            weights: weights.transpose()?,
            budget: budget.transpose()?,
            max_latency: self.max_latency.map(|Time(most)| most.as_secs_f64()),
            tiers: self.tiers.as_ref().map(named).transpose()?,
            volatile: Some(self.volatile),
        };
        let most = Replicas { max: Replicas::MAX_COUNT, ..Replicas::default() };
        let (policy, resolutions) = resolve(&Ask::default(), &asked, &Ask::default(), most);
        if let Some(reason) = reason_without_target(&policy, snapshot) {
            return Err(wrong(reason));
        }
        let mut notes: Vec<String> = resolutions.iter().map(ToString::to_string).collect();
        let replicas = policy.replicas.min(snapshot.domains_up(&TargetSet::ALL));
        if replicas < policy.replicas && self.counts(&policy) {
            let (wanted, reached) = (policy.replicas, plural(replicas.into(), "target"));
            notes.push(format!(
                "{replicas} of {wanted} replicas: each is on a target of its own, and a process reaches {reached}"
            ));
        }
        Ok((Policy { model: self.cost_model, replicas, ..policy }, notes))
    }

    /// Returns the requirements that plans under this policy violated.
    pub fn unheld(&self, policy: &Policy, noted: &Noted) -> Vec<String> {
        let Noted { blocks, fewer, gave_way } = noted;
        let of = |some: u64| if some == *blocks { "all blocks".into() } else { format!("{some} of {blocks} blocks") };
        let mut notes: Vec<String> = gave_way.iter().map(|(way, some)| format!("{}: {way}", of(*some))).collect();
        if *fewer > 0 && self.counts(policy) {
            let budget = policy.budget.map_or(String::new(), |budget| format!(" within the budget of {}x", budget.0));
            let wanted = plural(policy.replicas.into(), "replica");
            notes.push(format!("{}: there is no room for {wanted}{budget}", of(*fewer)));
        }
        notes
    }

    /// Whether the policy requests a number of replicas, and not only as many as possible.
    fn counts(&self, policy: &Policy) -> bool {
        self.replicas.is_some() || (policy.budget.is_none() && policy.replicas < Replicas::MAX_COUNT)
    }

    /// Returns the encoding for all replicas, if one is named. Its costs must be known.
    pub fn encoding(&self, kinds: &[Kind]) -> Result<Option<Encoding>, DescriptionError> {
        let wrong = |reason: String| DescriptionError::Policy { policy: self.name.clone(), reason };
        let Some(name) = &self.encoding else { return Ok(None) };
        let encoding: Encoding = name.parse().map_err(|e| wrong(format!("{e}")))?;
        let known = |kind: &Kind| kind.costs.iter().any(|(known, _)| *known == encoding);
        if encoding != Encoding::NONE && !kinds.iter().all(known) {
            return Err(wrong(format!("nothing says what {encoding} does to the data; add it by [[data.encoding]]")));
        }
        Ok(Some(encoding))
    }
}

/// Returns the reason if no target can hold even one replica, independent of free space.
fn reason_without_target(policy: &Policy, snapshot: &Snapshot) -> Option<String> {
    let usable = |tier: u8| policy.any_target || policy.tiers.has(tier);
    let targets = || snapshot.targets().iter().filter(|target| usable(target.tier));
    let lasts = |target: &Target| snapshot.tiers()[usize::from(target.tier)].persistent;
    let only = |target: &Target| policy.replicas > 1 || policy.volatile || lasts(target);
    let quick = |target: &Target| {
        only(target) && (policy.any_target || policy.max_latency.is_none_or(|most| target.latency <= most))
    };
    if !targets().any(lasts) && policy.ack == Ack::Durable {
        Some("no tier outlives a reboot, and `durable` needs one; write another `ack`, or `persistent = true`".into())
    } else if !targets().any(lasts) && !policy.volatile {
        Some("no tier outlives a reboot, and one replica has to; `volatile = true` allows that none does".into())
    } else if !targets().any(quick) {
        Some("no tier is as quick as max_latency says; give a longer one, or leave it out".into())
    } else {
        None
    }
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}
