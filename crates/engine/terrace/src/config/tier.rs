//! `[[tier]]`: a performance level and its targets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};
use terrace_tier::{TargetSettings, TierKind};

use super::{Bytes, Rate, Time};

/// `[[tier]]`: a performance level and its targets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    /// Its name.
    pub name: String,
    /// The kind of its targets.
    pub kind: TierKind,
    /// How a directory holds objects.
    #[serde(default, skip_serializing_if = "Layout::is_default")]
    pub layout: Layout,
    /// Its targets.
    #[serde(default)]
    pub targets: Vec<TargetConfig>,
    /// The service of an `object` tier, by OpenDAL's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Options that the kind reads. An `object` tier passes them to OpenDAL, where `${NAME}` stands for an environment
    /// variable.
    #[serde(default, deserialize_with = "options", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The limit for the time of a call, with all its retries. Without it, 10 seconds for an `object` tier, and no limit for
    /// others. A target that takes longer is not used for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Time>,
    /// The limit for the bytes that each target may allocate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Whether it survives a reboot.
    #[serde(default = "yes")]
    pub persistent: bool,
    /// Above this share of its capacity, the mover evicts replicas from the tier.
    #[serde(default = "nine_tenths")]
    pub high_watermark: f64,
    /// The power of a target while it reads or writes, in watts. `min_energy` uses it.
    #[serde(default = "five")]
    pub watts: f64,
    /// Makes it as slow as another device, for all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleConfig>,
}

impl TierConfig {
    /// Returns the settings of one of its targets, for the tier's kind.
    pub fn settings(&self, at: &TargetConfig) -> TargetSettings {
        let mut options = self.options.clone();
        options.extend(at.options.clone());
        TargetSettings {
            path: at.path.clone(),
            service: self.service.clone(),
            options,
            capacity: self.capacity.map_or(u64::MAX, |capacity| capacity.0),
            persistent: self.persistent,
            timeout: self.timeout.map(|timeout| timeout.0),
        }
    }

    /// Returns the node of one of its targets: as configured, or as its kind knows it.
    pub(crate) fn node_of(&self, at: &TargetConfig) -> Option<String> {
        at.node.clone().or_else(|| self.kind.node(&self.settings(at)))
    }

    /// Returns the name of the failure domain of one of its targets: as configured, or its node, or its own.
    pub(crate) fn domain_of(&self, at: &TargetConfig, number: u16) -> String {
        at.domain.clone().or_else(|| self.node_of(at)).unwrap_or_else(|| format!("target-{number}"))
    }

    /// Returns whether another tier is the same, but for the numbers of its targets.
    pub(crate) fn is_like(&self, other: &TierConfig) -> bool {
        let text = |tier: &TierConfig| {
            let mut tier = tier.clone();
            tier.targets.iter_mut().for_each(|target| target.number = None);
            toml::to_string(&tier)
        };
        text(self) == text(other)
    }

    /// Returns the place of one of its targets for messages: a path, or a service and a path on it.
    pub(crate) fn place_name(&self, at: &TargetConfig) -> PathBuf {
        match &self.service {
            Some(service) => format!("{service}:{}", at.path.display()).into(),
            None => at.path.clone(),
        }
    }
}

fn yes() -> bool {
    true
}

fn nine_tenths() -> f64 {
    0.9
}

pub(super) fn five() -> f64 {
    5.0
}

/// How directories hold objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// As frames in segments: encoded, packed, and quick to change.
    #[default]
    Frames,
    /// Each as an ordinary file under its own key, below `files/`. It can be read without Terrace.
    Plain,
}

impl Layout {
    fn is_default(&self) -> bool {
        *self == Layout::default()
    }
}

/// Reads options, which may be written as strings, numbers or booleans.
pub(super) fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an option's value: a text in quotes, a whole number, true or false")]
    enum Value {
        Text(String),
        Number(i64),
        Flag(bool),
    }
    let text = |value| match value {
        Value::Text(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    };
    let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(option, value)| (option, text(value))).collect())
}

/// One target. In the configuration file it is a path, or a table with more settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetConfig {
    /// The directory, or for an `object` tier the prefix or folder on the service. Other kinds may read it in their own way.
    pub path: PathBuf,
    /// The failure domain. Replicas of one extent never share one. Without it, the target's node is the domain, and a target
    /// whose node is not known is a domain of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The node that it is on. Without it, a target of `kind = "node"` is on the host in its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The number by which the catalog knows it, which the store assigns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// Options of this target. They are added to the tier's options and override them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl TargetConfig {
    /// Returns a target with only a path.
    pub fn at(path: impl Into<PathBuf>) -> TargetConfig {
        TargetConfig { path: path.into(), domain: None, node: None, number: None, options: BTreeMap::new() }
    }
}

impl<'de> Deserialize<'de> for TargetConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathOrTable)
    }
}

struct PathOrTable;

impl<'de> de::Visitor<'de> for PathOrTable {
    type Value = TargetConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path in quotes, or a table such as { path = \"/mnt/a\", domain = \"rack1\" }")
    }

    fn visit_str<E: de::Error>(self, path: &str) -> Result<TargetConfig, E> {
        Ok(TargetConfig::at(path))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, table: A) -> Result<TargetConfig, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: PathBuf,
            domain: Option<String>,
            node: Option<String>,
            number: Option<u16>,
            #[serde(default, deserialize_with = "options")]
            options: BTreeMap<String, String>,
        }
        let Table { path, domain, node, number, options } = Table::deserialize(MapAccessDeserializer::new(table))?;
        Ok(TargetConfig { path, domain, node, number, options })
    }
}

/// Limits of an emulated device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleConfig {
    /// Bytes read per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Rate>,
    /// Bytes written per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Rate>,
    /// Time that is added to each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
}
