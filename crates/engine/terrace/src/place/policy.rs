//! The policy of one write: combines the options of the operation, the rule for its key, and the store's defaults (HReplica
//! IV-B.2).

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_plan::policy::{Ask, Level, Policy, Replicas, Resolution, resolve_levels};

use super::{Planning, PutOptions};
use crate::config::{Ack, Config, Rule};

/// The policy for one key.
#[derive(Clone)]
pub(crate) struct WritePolicy {
    /// The rules that it follows.
    pub rules: Arc<Config>,
    /// The number of replicas that was asked for.
    pub asked: u8,
    /// The constraints for the planner. The number of replicas is at most the number of failure domains.
    pub wanted: Policy,
    /// Whether more replicas would be possible if those in memory counted.
    pub memory_left_out: bool,
}

impl Planning {
    /// Returns the policy for a write to a key.
    pub fn policy(&self, key: &[u8], options: &PutOptions) -> WritePolicy {
        let (policy, resolutions) = self.explained_policy(key, options);
        for resolution in resolutions {
            tracing::debug!(key = %terrace_format::key::show(key), "{resolution}");
        }
        policy
    }

    /// Returns the policy for a key under other rules.
    pub fn policy_under(&self, rules: &Arc<Config>, key: &[u8], options: &PutOptions) -> WritePolicy {
        self.resolve(rules, key, options).0
    }

    /// Returns whether replicas that suit an object under one key suit it under the other, apart from their number.
    pub fn are_ruled_alike(&self, key: &[u8], other: &[u8], options: &PutOptions) -> bool {
        let place = |key| Policy { replicas: 0, ..self.policy(key, options).wanted };
        place(key) == place(other)
    }

    /// Returns the policy for a write to a key, and how each conflict between requests was resolved.
    pub fn explained_policy(&self, key: &[u8], options: &PutOptions) -> (WritePolicy, Vec<Resolution>) {
        self.rules.renew();
        self.resolve(&self.rules.now(), key, options)
    }

    /// Returns the range of the number of replicas.
    pub fn replica_range(&self) -> Replicas {
        range(&self.rules.now())
    }

    fn resolve(&self, rules: &Arc<Config>, key: &[u8], options: &PutOptions) -> (WritePolicy, Vec<Resolution>) {
        let config = &**rules;
        let rule = config.rule_for(key);
        let Replicas { min, max, .. } = range(config);
        let (resolved, resolutions) = self.decide(config, rule, options);
        let asked = resolved.replicas.clamp(min, max);
        let model = config.store.cost_model;
        let domains = self.tiers.domains(resolved.tiers, resolved.is_all_persistent()).min(255) as u8;
        let memory_left_out = domains < asked && self.tiers.domains(resolved.tiers, false) > usize::from(domains);
        let wanted = Policy { replicas: asked.min(domains).max(1), model, ..resolved };
        if config.origin_of(key).is_some() {
            // The origin has the bytes, so one replica is enough, and it may be in memory.
            let wanted = Policy {
                replicas: 1,
                least: 1,
                ack: Ack::Placed,
                volatile: true,
                persistent: false,
                budget: None,
                ..wanted
            };
            return (WritePolicy { rules: rules.clone(), asked: 1, wanted, memory_left_out: false }, resolutions);
        }
        (WritePolicy { rules: rules.clone(), asked, wanted, memory_left_out }, resolutions)
    }

    fn decide(&self, config: &Config, rule: Option<&Rule>, options: &PutOptions) -> (Policy, Vec<Resolution>) {
        let mut asks: SmallVec<[(Level, Ask); 4]> = SmallVec::new();
        for level in options.levels() {
            let rank = if asks.is_empty() { Level::Operation } else { Level::Application };
            let ask = Ask {
                requirements: level.requirements.clone(),
                replicas: level.replicas,
                ack: level.ack,
                weights: level.weights,
                budget: level.budget,
                max_latency: level.max_latency,
                tiers: level.tiers.as_deref().map(|names| self.tiers.named(names)),
                ..Ask::default()
            };
            asks.push((rank, ask));
        }
        let application = rule.map_or_else(Ask::default, |rule| Ask {
            requirements: rule.requirements.iter().map(|asked| **asked).collect(),
            replicas: rule.replicas,
            ack: rule.ack,
            weights: rule.weights.as_deref().copied(),
            budget: rule.budget.as_deref().copied(),
            max_latency: rule.max_latency.map(|time| time.0.as_secs_f64()),
            tiers: rule.tiers.as_deref().map(|names| self.tiers.named(names)),
            volatile: Some(rule.volatile),
        });
        let store = &config.store;
        // `Placed` is the lowest level and the default, so it counts as no request.
        let ack = Some(store.ack).filter(|ack| *ack > Ack::Placed);
        let system = Ask {
            requirements: store.requirements.iter().map(|asked| **asked).collect(),
            ack,
            weights: store.weights.as_deref().copied(),
            budget: store.budget.as_deref().copied(),
            max_latency: store.max_latency.map(|time| time.0.as_secs_f64()),
            ..Ask::default()
        };
        asks.push((Level::Application, application));
        asks.push((Level::System, system));
        let levels: SmallVec<[(Level, &Ask); 4]> = asks.iter().map(|(level, ask)| (*level, ask)).collect();
        resolve_levels(&levels, range(config))
    }
}

fn range(config: &Config) -> Replicas {
    let replicas = config.store.replicas;
    Replicas { min: replicas.min, max: replicas.max, default: replicas.default }
}
