//! The configuration of a job's store: the disks of its hosts above the shared folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use terrace::config::{Bytes, TargetConfig, TierConfig};
use terrace::{Cluster, Config};

use super::folder::SharedFolder;
use super::meeting::Plan;
use crate::errors::read_text;

/// The tier of the hosts' disks, and that of the shared folder.
pub const LOCAL_TIER: &str = "local";
pub const SHARED_TIER: &str = "shared";
/// The name of a host's target in addresses.
pub const TARGET_NAME: &str = "local";
/// The name of the shared target's folder.
pub const SHARED_TARGET: &str = "tier";
/// The name of the file with the secret of the hosts' targets.
pub const SECRET_FILE: &str = "secret";
/// Each tier, before its targets are known.
const TIERS_TEXT: &str =
    "[[tier]]\nname = 'local'\nkind = 'node'\n[[tier]]\nname = 'shared'\nkind = 'object'\nservice = 'fs'\n";
/// Two replicas survive the loss of a host.
const USUAL_SETTINGS: &str = "[store]\nreplicas = { min = 1, max = 5, default = 2 }\n";

#[derive(Serialize)]
struct Tiers {
    tier: Vec<TierConfig>,
}

/// Returns the configuration: the settings and rules of `file`, and the tiers of the job.
pub fn make(file: Option<&Path>, folder: &SharedFolder, plan: &Plan, capacity: Option<Bytes>) -> Result<Config> {
    let (text, origin) = match file {
        Some(file) => (read_text(file)?, file.display().to_string()),
        None => (USUAL_SETTINGS.to_owned(), "the usual settings of a job".to_owned()),
    };
    let table: toml::Table = toml::from_str(&text).with_context(|| origin.clone())?;
    if table.contains_key("tier") {
        bail!("{origin}: a job has the tiers {LOCAL_TIER} and {SHARED_TIER}; leave [[tier]] out");
    }
    let tiers = tiers(folder, plan, capacity)?;
    // Behind the text, so that errors name its lines.
    let text =
        format!("{text}\n{}", toml::to_string(&Tiers { tier: tiers }).context("describing the tiers of the job")?);
    Ok(Config::parse(&text, &origin)?)
}

/// Returns the configuration of a job that goes on: as `made`, but the targets that were there before keep their numbers, and tiers of
/// services that were added stay. Settings and rules stay if none were given.
pub fn go_on(made: Config, are_given: bool, before: Config, held: &BTreeMap<String, u16>) -> Config {
    let (job, more): (Vec<_>, Vec<_>) =
        before.tiers.iter().cloned().partition(|tier| [LOCAL_TIER, SHARED_TIER].contains(&tier.name.as_str()));
    let mut config = if are_given { made } else { Config { tiers: made.tiers, ..before.clone() } };
    let mut kept = BTreeSet::new();
    for tier in &mut config.tiers {
        for target in &mut tier.targets {
            target.number = match &target.node {
                None => numbers(&job, &tier.name).first().copied(),
                // A copy of a host's folder is no second target.
                Some(host) => held
                    .get(host)
                    .copied()
                    .filter(|number| numbers(&job, &tier.name).contains(number) && kept.insert(*number)),
            };
        }
    }
    config.tiers.extend(more.into_iter().filter(Cluster::is_common));
    config
}

/// Returns the numbers of a tier's targets.
fn numbers(tiers: &[TierConfig], name: &str) -> Vec<u16> {
    let targets = tiers.iter().filter(|tier| tier.name == name).flat_map(|tier| &tier.targets);
    targets.filter_map(|target| target.number).collect()
}

fn tiers(folder: &SharedFolder, plan: &Plan, capacity: Option<Bytes>) -> Result<Vec<TierConfig>> {
    let mut tiers = Config::parse_tiers(TIERS_TEXT, "the tiers of a job")?;
    for tier in &mut tiers {
        if tier.name == SHARED_TIER {
            tier.targets = vec![TargetConfig::at(folder.path(SHARED_TARGET))];
            continue;
        }
        let secret = folder.path(SECRET_FILE).into_os_string().into_string();
        let secret = secret.ok().context("the path of the shared folder is not UTF-8; name another one")?;
        tier.options.insert("secret".to_owned(), secret);
        tier.capacity = capacity;
        tier.targets = plan.hosts.iter().map(|host| local_target(plan, host)).collect::<Result<_>>()?;
    }
    Ok(tiers)
}

fn local_target(plan: &Plan, host: &str) -> Result<TargetConfig> {
    let arrival = plan.arrival(host)?;
    let options = BTreeMap::from([("fingerprint".to_owned(), arrival.fingerprint.clone())]);
    let path = format!("https://{host}:{}/{TARGET_NAME}", arrival.target_port);
    Ok(TargetConfig { node: Some(host.to_owned()), options, ..TargetConfig::at(path) })
}
