//! `[[policy]]`: the keys of a rule in a store's configuration, as a policy.

use serde::Deserialize;
use terrace::Encoding;
use terrace::config::Time;
use terrace_plan::cost::Model;
use terrace_plan::policy::{Ack, Ask, Policy, Replicas, resolve};
use terrace_plan::snapshot::Snapshot;
use terrace_simulate::Kind;

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
    /// As a store would have it for a rule that says so.
    pub fn policy(&self, snapshot: &Snapshot) -> Result<Policy, DescriptionError> {
        let wrong = |reason: String| DescriptionError::Policy { policy: self.name.clone(), reason };
        let parsed = |text: &String| text.parse().map_err(|e| wrong(format!("{e}")));
        let weights = self.weights.as_ref().map(|text| text.parse().map_err(|e| wrong(format!("{e}"))));
        let budget = self.budget.as_ref().map(|text| text.parse().map_err(|e| wrong(format!("{e}"))));
        let named = |names: &Vec<String>| {
            let none = |name: &str| wrong(format!("no tier is named {name:?}; name one of those described"));
            snapshot.tiers_named(names.iter().map(String::as_str)).map_err(none)
        };
        if let Some(replicas) = self.replicas.filter(|replicas| !(1..=Replicas::LIMIT).contains(replicas)) {
            return Err(wrong(format!("replicas = {replicas}; give 1 to {}", Replicas::LIMIT)));
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
        let most = Replicas { max: Replicas::LIMIT, ..Replicas::default() };
        let (policy, _) = resolve(&Ask::default(), &asked, &Ask::default(), most);
        let replicas = policy.replicas.min(snapshot.domains_up());
        Ok(Policy { model: self.cost_model, replicas, ..policy })
    }

    /// The encoding of all replicas, where one is named: it must be known what it does to the data.
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
