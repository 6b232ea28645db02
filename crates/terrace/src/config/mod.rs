//! `terrace.toml`: the store's tiers, defaults and rules.

mod discover;
mod units;

pub use units::{Bytes, Rate, Time};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, key};

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// One replica and its commit are in files, the rest is owed: survives the crash of every process.
    #[default]
    Placed,
    /// All replicas are in files: also survives the loss of all failure domains but one.
    Replicated,
    /// All replicas and the log are fsynced: survives a power loss, too.
    Durable,
}

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Defaults for all objects.
    #[serde(default)]
    pub store: StoreConfig,
    /// Exceptions by prefix; the first that matches a key holds.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
    /// The tiers, fastest first.
    #[serde(default, rename = "tier")]
    pub tiers: Vec<TierConfig>,
}

/// `[store]`: defaults for all objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// How many replicas.
    pub replicas: Replicas,
    /// When a write returns.
    pub ack: Ack,
}

/// How many replicas an extent may and should have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Replicas {
    /// The fewest that may be asked for.
    pub min: u8,
    /// The most.
    pub max: u8,
    /// Where nothing is asked for.
    pub default: u8,
}

impl Default for Replicas {
    fn default() -> Self {
        Replicas { min: 1, max: 5, default: 3 }
    }
}

/// `[[rule]]`: what holds for the keys at and below a prefix.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The prefix: whole components of a key.
    pub prefix: String,
    /// How many replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// When a write returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
    /// Whether the objects may live on volatile tiers alone.
    #[serde(default)]
    pub volatile: bool,
    /// The only tiers to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<String>>,
}

/// `[[tier]]`: a performance level and its targets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    /// Its name.
    pub name: String,
    /// What its targets are.
    pub kind: TierKind,
    /// Its targets.
    pub targets: Vec<TargetConfig>,
    /// The most bytes that each target may allocate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Whether it outlives a reboot.
    #[serde(default = "yes")]
    pub persistent: bool,
    /// The share of its capacity above which replicas that have a copy further down are dropped.
    #[serde(default = "nine_tenths")]
    pub high_watermark: f64,
    /// Makes it as slow as another device, for all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleConfig>,
}

fn yes() -> bool {
    true
}

fn nine_tenths() -> f64 {
    0.9
}

/// What the targets of a tier are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierKind {
    /// Directories of any file system.
    Directory,
    /// This process's memory: for tests.
    Memory,
}

/// One target: a path, or a table with more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "TargetText")]
pub struct TargetConfig {
    /// The directory.
    pub path: PathBuf,
    /// Replicas of one extent never share a domain; each target is one of its own unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TargetText {
    Path(PathBuf),
    Table { path: PathBuf, domain: Option<String> },
}

impl From<TargetText> for TargetConfig {
    fn from(text: TargetText) -> Self {
        match text {
            TargetText::Path(path) => TargetConfig { path, domain: None },
            TargetText::Table { path, domain } => TargetConfig { path, domain },
        }
    }
}

/// Limits of an emulated device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThrottleConfig {
    /// Bytes read per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Rate>,
    /// Bytes written per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Rate>,
    /// Added to each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
}

impl Config {
    /// Reads a configuration; `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Config`] with the place, for text that does not parse or says what cannot be.
    pub fn parse(text: &str, origin: &str) -> Result<Config> {
        let config: Config = toml::from_str(text).map_err(|e| Error::Config(format!("{origin}: {e}")))?;
        config.check().map_err(|reason| Error::Config(format!("{origin}: {reason}")))?;
        Ok(config)
    }

    /// The configuration as a file's text.
    pub fn to_toml(&self) -> String {
        // Every field has a form in TOML, so that this cannot fail; an empty file would be refused when read.
        toml::to_string(self).unwrap_or_default()
    }

    /// The rule that holds for a key.
    pub fn rule_for(&self, key: &[u8]) -> Option<&Rule> {
        self.rules.iter().find(|rule| key::below(key, rule.prefix.as_bytes()))
    }

    fn check(&self) -> Result<(), String> {
        let Replicas { min, max, default } = self.store.replicas;
        if !(1 <= min && min <= default && default <= max && max <= 16) {
            return Err(format!(
                "replicas: 1 <= min ({min}) <= default ({default}) <= max ({max}) <= 16 does not hold"
            ));
        }
        if self.tiers.is_empty() {
            return Err("there is no [[tier]]; a store needs one at least".into());
        }
        if !self.tiers.iter().any(|t| t.persistent) {
            return Err("no tier is persistent; set `persistent = true` on one that outlives a reboot".into());
        }
        let mut paths: Vec<(&str, PathBuf)> = Vec::new();
        for (index, tier) in self.tiers.iter().enumerate() {
            let name = tier.name.as_str();
            if name.is_empty() || self.tiers[..index].iter().any(|other| other.name == name) {
                return Err(format!("tier {name:?}: each tier needs a name of its own"));
            }
            if tier.targets.is_empty() {
                return Err(format!("tier {name:?} has no targets"));
            }
            if !(0.0 < tier.high_watermark && tier.high_watermark <= 1.0) {
                return Err(format!("tier {name:?}: high_watermark is a share, above 0 and at most 1"));
            }
            for target in tier.targets.iter().filter(|_| tier.kind == TierKind::Directory) {
                let path = std::path::absolute(&target.path).unwrap_or_else(|_| target.path.clone());
                let path = path.canonicalize().unwrap_or(path);
                if let Some((other, same)) = paths.iter().find(|(_, p)| p.starts_with(&path) || path.starts_with(p)) {
                    return Err(format!(
                        "tier {name:?}: {} is, holds or lies in tier {other:?}'s {}; give each target its own directory",
                        path.display(),
                        same.display()
                    ));
                }
                paths.push((name, path));
            }
        }
        for rule in &self.rules {
            let known = |name: &String| self.tiers.iter().any(|t| t.name == *name);
            if let Some(unknown) = rule.tiers.iter().flatten().find(|name| !known(name)) {
                return Err(format!("rule {:?}: there is no tier {unknown:?}", rule.prefix));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[store]
replicas = { min = 1, max = 5, default = 2 }
ack = "placed"
[[rule]]
prefix = "checkpoints/"
replicas = 3
[[tier]]
name = "ram"
kind = "directory"
targets = ["/dev/shm/terrace-test"]
capacity = "2GiB"
persistent = false
[[tier]]
name = "pfs"
kind = "directory"
targets = ["/mnt/a", { path = "/mnt/b", domain = "rack1" }]
throttle = { read = "100MB/s", write = "80MB/s", latency = "5ms" }
"#;

    #[test]
    fn a_configuration_survives_being_written() {
        let config = Config::parse(TWO, "test").expect("parses");
        let again = Config::parse(&config.to_toml(), "again").expect("parses again");
        assert_eq!(again.to_toml(), config.to_toml());
        assert_eq!(config.tiers[1].targets[1].domain.as_deref(), Some("rack1"));
        assert_eq!(config.rule_for(b"checkpoints/1").and_then(|r| r.replicas), Some(3));
        assert!(config.rule_for(b"checkpoints2").is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_place() {
        let wrong = |text: &str, says: &str| {
            let error = Config::parse(text, "t.toml").expect_err("is refused").to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong(&TWO.replace("capacity", "capasity"), "capasity");
        wrong(&TWO.replace("2GiB", "2 lots"), "2 lots");
        wrong(&TWO.replace("/mnt/b", "/mnt/a"), "own directory");
        wrong(&TWO.replace("/mnt/b", "/mnt/a/b"), "own directory");
        wrong(&TWO.replace("default = 2", "default = 9"), "does not hold");
        wrong("", "no [[tier]]");
        wrong(&TWO.replace("name = \"pfs\"", "name = \"ram\""), "name of its own");
    }
}
