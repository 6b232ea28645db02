//! What holds for one write: what the operation, the rule for its key and the store ask for, made one policy
//! (HReplica IV-B.2).

use terrace_plan::policy::{Ask, Asked, Policy as Resolved, Replicas, Weights, resolve};

use super::PutOptions;
use crate::config::{Ack, Config, Rule};
use crate::store::Inner;

/// The policy for one key.
pub(crate) struct Policy {
    /// Replicas that each extent is to have here.
    pub want: u8,
    /// Replicas that were asked for.
    pub asked: u8,
    /// When the write returns.
    pub ack: Ack,
    /// Whether all replicas may be in memory.
    pub volatile: bool,
    /// The only tiers to use.
    pub tiers: Option<Vec<String>>,
    /// How replicas are to be encoded.
    pub wish: Wish,
}

/// What matters when replicas of an object are encoded.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// For replica 0, and the others.
    weights: [Weights; 2],
    /// Whether replica 0 stays as it is.
    raw_first: bool,
}

impl Wish {
    /// What matters when this replica is encoded; none where it is not to be.
    pub fn weights(&self, replica: u8) -> Option<Weights> {
        match replica {
            0 => (!self.raw_first).then_some(self.weights[0]),
            _ => Some(self.weights[1]),
        }
    }
}

/// The policy for a write to a key.
pub(crate) fn policy(inner: &Inner, key: &[u8], options: &PutOptions) -> Policy {
    let rule = inner.config.rule_for(key);
    let operation = Ask {
        requirements: options.requirements.clone(),
        replicas: options.replicas,
        ack: options.ack,
        weights: options.weights,
        ..Ask::default()
    };
    let Replicas { min, max, .. } = range(&inner.config);
    let (resolved, resolutions) = decide(&inner.config, rule, &operation);
    for resolution in resolutions {
        tracing::debug!(key = %crate::key::show(key), "{resolution}");
    }
    let asked = resolved.replicas.clamp(min, max);
    Policy {
        want: asked.min(inner.tiers.domains().min(255) as u8).max(1),
        asked,
        ack: resolved.ack,
        volatile: resolved.volatile,
        tiers: rule.and_then(|r| r.tiers.clone()),
        wish: Wish { weights: [resolved.first, resolved.rest], raw_first: resolved.raw_first },
    }
}

fn decide(config: &Config, rule: Option<&Rule>, operation: &Ask) -> (Resolved, Vec<terrace_plan::policy::Resolution>) {
    let application = rule.map_or_else(Ask::default, |rule| Ask {
        requirements: understood(&rule.requirements),
        replicas: rule.replicas,
        ack: rule.ack,
        volatile: Some(rule.volatile),
        ..Ask::default()
    });
    // The weakest one is what holds where nothing is said.
    let ack = Some(config.store.ack).filter(|ack| *ack > Ack::Placed);
    let system = Ask { requirements: understood(&config.store.requirements), ack, ..Ask::default() };
    resolve(operation, &application, &system, range(config))
}

fn range(config: &Config) -> Replicas {
    let replicas = config.store.replicas;
    Replicas { min: replicas.min, max: replicas.max, default: replicas.default }
}

/// Those of a checked configuration all are.
fn understood(names: &[String]) -> Vec<Asked> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}
