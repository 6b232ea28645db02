//! `terrace.toml`: the store's tiers, defaults and rules.
//!
//! Rules and origins may change while a store is open: each write and each round of the mover checks the file with one `stat`. The rest stays as it
//! was at opening.

mod check;
mod discover;
mod origin;
mod secrets;
mod shared;
mod tier;
mod units;
mod written;

pub use origin::{DEFAULT_MAX_AGE, OriginConfig};
pub(crate) use shared::{SharedConfig, publish};
pub use terrace_cost::Model;
pub use terrace_tier::TierKind;
pub use tier::{Layout, TargetConfig, ThrottleConfig, TierConfig};
pub use units::{Bytes, Rate, Time};
pub use written::Written;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use terrace_codec::Encoding;
use terrace_cost::Weights;
use terrace_format::{frame, key};
use terrace_plan::policy::{Asked, Budget};

use crate::{Error, Result};

/// The condition for a write to return. Each level includes those before it.
///
/// `placed`: replica 0 and its commit are in files, and the other replicas are pending. The write survives a crash of every
/// process. `replicated`: all replicas are in files. With N replicas, it also survives the loss of any N - 1 failure
/// domains. `durable`: each extent has a replica on a persistent target, synced with the log. It also survives a loss of
/// power.
pub use terrace_plan::policy::Ack;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Defaults for all objects.
    #[serde(default)]
    pub store: StoreConfig,
    /// Exceptions by prefix. The first rule that matches a key applies.
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The origins.
    #[serde(default, rename = "origin", skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<OriginConfig>,
    /// The tiers, fastest first.
    #[serde(default, rename = "tier")]
    pub tiers: Vec<TierConfig>,
}

/// `[store]`: defaults for all objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// The number of replicas.
    pub replicas: Replicas,
    /// The acknowledgement for which a write waits.
    pub ack: Ack,
    /// The requirements for all objects, by name. Of two that conflict, the first one applies.
    pub requirements: Vec<Written<Asked>>,
    /// Weights of the time to encode, the time to decode and the bytes stored, as `"0.3,0.3,0.4"`, or a preset's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Written<Weights>>,
    /// The limit for the bytes stored for each byte given, over all replicas, as `"3x"`: an object gets as many replicas as
    /// fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Written<Budget>>,
    /// The highest latency of a target that holds the replica to be read first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_latency: Option<Time>,
    /// How costs are estimated: `"measured"`, or `"paper"` as HReplica and HCompress do.
    pub cost_model: Model,
    /// The longest extent.
    pub block: Bytes,
    /// The size of each process's cache of bytes that small reads have decoded.
    pub cache: Bytes,
    /// The number of targets that the store ever had, which is the next target's number.
    #[serde(skip_serializing_if = "none_yet")]
    pub targets: u16,
}

fn none_yet(count: &u16) -> bool {
    *count == 0
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            replicas: Replicas::default(),
            ack: Ack::default(),
            requirements: Vec::new(),
            weights: None,
            budget: None,
            max_latency: None,
            cost_model: Model::default(),
            block: Bytes(frame::MAX_EXTENT_BYTES.into()),
            cache: Bytes(64 << 20),
            targets: 0,
        }
    }
}

/// The permitted and usual numbers of replicas of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Replicas {
    /// The lowest number that may be asked for.
    pub min: u8,
    /// The highest number.
    pub max: u8,
    /// The number for objects without a number of their own.
    pub default: u8,
}

impl Default for Replicas {
    fn default() -> Self {
        Replicas { min: 1, max: 5, default: 3 }
    }
}

/// `[[rule]]`: settings for the keys at and below a prefix.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The prefix: whole components of a key.
    pub prefix: String,
    /// The requirements for these objects, by name. Of two that conflict, the first one applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Written<Asked>>,
    /// The number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// The acknowledgement for which a write waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<Ack>,
    /// Weights of the time to encode, the time to decode and the bytes stored, as `"0.3,0.3,0.4"`, or a preset's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Written<Weights>>,
    /// The limit for the bytes stored for each byte given, over all replicas, as `"3x"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Written<Budget>>,
    /// The encoding of every replica, by name. Without it, the store chooses encodings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Written<Encoding>>,
    /// The highest latency of a target that holds the replica to be read first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_latency: Option<Time>,
    /// Whether the objects may be on volatile tiers alone.
    #[serde(default)]
    pub volatile: bool,
    /// The only tiers to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<String>>,
    /// How directories on persistent tiers hold these objects, instead of their tiers' layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

fn read_toml(text: &str, origin: &str) -> Result<Config> {
    // The only kind that is a crate of its own. It is known before any configuration names it.
    terrace_remote::register();
    toml::from_str(text).map_err(|e| Error::Config(format!("{origin}: {e}")))
}

impl Config {
    /// Returns the paths of the targets that outlive a reboot and may hold a copy of the log.
    pub(crate) fn log_copy_paths(&self) -> impl Iterator<Item = &PathBuf> {
        let lasting = self.tiers.iter().filter(|tier| tier.persistent && tier.kind.capabilities().log_copies);
        lasting.flat_map(|tier| &tier.targets).map(|target| &target.path)
    }

    /// Returns the length of the longest extent in bytes.
    pub(crate) fn block(&self) -> usize {
        self.store.block.0.min(frame::MAX_EXTENT_BYTES.into()) as usize
    }

    /// Returns whether any object may be a plain file.
    pub(crate) fn has_plain(&self) -> bool {
        let layouts = self.rules.iter().filter_map(|rule| rule.layout);
        self.tiers.iter().map(|tier| tier.layout).chain(layouts).any(|layout| layout == Layout::Plain)
    }

    /// Returns whether the tier with this index holds an object as a plain file. Parts of uploads are never plain files, because
    /// the object that they become shares their frames.
    pub(crate) fn is_plain(&self, level: usize, key: &[u8]) -> bool {
        // A plain file is a whole object, and those of origins often have some of their bytes here.
        if key::below(key, key::UPLOADS_FOLDER) || self.origin_of(key).is_some() {
            return false;
        }
        let Some(tier) = self.tiers.get(level).filter(|tier| tier.kind.capabilities().plain_files) else {
            return false;
        };
        let of_rule = self.rule_for(key).and_then(|rule| rule.layout).filter(|_| tier.persistent);
        of_rule.unwrap_or(tier.layout) == Layout::Plain && terrace_tier::can_be_file(key)
    }

    /// Reads the configuration in the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, and the errors of [`Config::parse`].
    pub fn read(path: &Path) -> Result<Config> {
        let bytes = terrace_system::read_regular(path).map_err(Error::io(format!("reading {}", path.display())))?;
        let text = str::from_utf8(&bytes).map_err(|e| {
            let line = 1 + bytes.iter().take(e.valid_up_to()).filter(|byte| **byte == b'\n').count();
            Error::Config(format!("{}: line {line} is not UTF-8; save the file as UTF-8", path.display()))
        })?;
        Config::parse(text, &path.display().to_string())
    }

    /// Parses a configuration; `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Config`], with the line and column of text that does not parse, or with the setting that is not valid.
    pub fn parse(text: &str, origin: &str) -> Result<Config> {
        let mut config = read_toml(text, origin)?;
        for tier in config.tiers.iter_mut().filter(|tier| tier.targets.is_empty()) {
            tier.targets.extend(tier.kind.default_path().map(TargetConfig::at));
        }
        check::check(&config).map_err(|reason| Error::Config(format!("{origin}: {reason}")))?;
        Ok(config)
    }

    /// Reads tiers that are to be added to a store.
    ///
    /// # Errors
    /// [`Error::Config`], with the line and column of text that does not parse, or for a text without tiers.
    pub fn parse_tiers(text: &str, origin: &str) -> Result<Vec<TierConfig>> {
        let tiers = read_toml(text, origin)?.tiers;
        if tiers.is_empty() {
            return Err(Error::Config(format!("{origin}: it describes no tier; write one, as a [[tier]] section")));
        }
        Ok(tiers)
    }

    /// Makes relative paths of directories absolute, from the current directory, so that they mean the same for all
    /// processes.
    pub(crate) fn make_paths_absolute(&mut self) -> Result<()> {
        for tier in self.tiers.iter_mut().filter(|tier| tier.kind.capabilities().local_path) {
            for target in &mut tier.targets {
                let context = format!("tier {:?}: target {}", tier.name, target.path.display());
                let path = std::path::absolute(&target.path).map_err(Error::io(context.clone()))?;
                if path.to_str().is_none() {
                    let reason = "its path is not UTF-8, as that of a file of TOML must be; use another directory";
                    return Err(Error::Config(format!("{context}: {reason}")));
                }
                target.path = path;
            }
        }
        Ok(())
    }

    /// Gives each target without a number a number that no target of the store ever had.
    pub(crate) fn number_targets(&mut self) {
        let targets = || self.tiers.iter().flat_map(|tier| &tier.targets);
        let highest = targets().filter_map(|target| target.number).max();
        let mut next = self.store.targets.max(highest.map_or(0, |n| n.saturating_add(1)));
        for target in self.tiers.iter_mut().flat_map(|tier| &mut tier.targets).filter(|t| t.number.is_none()) {
            target.number = Some(next);
            next = next.saturating_add(1);
        }
        self.store.targets = next;
    }

    /// The configuration as a file's text.
    pub fn to_toml(&self) -> String {
        // This fails only for paths that are not UTF-8, which no parsed or discovered configuration has. The empty text is
        // refused when it is read.
        toml::to_string(self).unwrap_or_default()
    }

    /// Returns whether replicas that suit one object suit all, apart from their number.
    pub(crate) fn places_all_alike(&self) -> bool {
        self.rules.iter().all(|rule| {
            rule.tiers.is_none()
                && !rule.volatile
                && rule.requirements.is_empty()
                && rule.ack.is_none()
                && rule.budget.is_none()
                && rule.max_latency.is_none()
        })
    }

    /// Returns the rule for a key: the first whose prefix the key equals or lies below.
    pub fn rule_for(&self, key: &[u8]) -> Option<&Rule> {
        self.rules.iter().find(|rule| key::below(key, rule.prefix.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TWO_TIERS: &str = r#"
[store]
replicas = { min = 1, max = 5, default = 2 }
ack = "placed"
requirements = ["min_read_latency"]
block = "512KiB"
[[rule]]
prefix = "checkpoints/"
replicas = 3
ack = "durable"
requirements = ["max_durability"]
[[rule]]
prefix = "checkpoints/scratch"
volatile = true
tiers = ["ram"]
[[tier]]
name = "ram"
kind = "directory"
targets = ["/dev/shm/terrace-test"]
capacity = "2GiB"
persistent = false
[[tier]]
name = "pfs"
kind = "directory"
targets = ["/mnt/a", { path = "/mnt/b", domain = "rack1", node = "n3" }]
throttle = { read = "100MB/s", write = "80MB/s", latency = "5ms" }
"#;

    #[test]
    fn a_configuration_means_what_it_says_and_survives_being_written() {
        let config = Config::parse(TWO_TIERS, "test").expect("parses");
        for config in [&config, &Config::parse(&config.to_toml(), "again").expect("parses again")] {
            assert_eq!(config.store.replicas, Replicas { min: 1, max: 5, default: 2 });
            assert_eq!(config.store.block, Bytes(512 << 10));
            assert_eq!(config.rules[0].ack, Some(Ack::Durable));
            assert_eq!(config.rules[1].tiers.as_deref(), Some(&["ram".to_owned()][..]));
            let [ram, pfs] = &config.tiers[..] else { unreachable!("two tiers") };
            assert_eq!((ram.capacity, ram.persistent), (Some(Bytes(2 << 30)), false));
            assert_eq!((pfs.capacity, pfs.persistent, pfs.high_watermark), (None, true, 0.9));
            assert_eq!(pfs.targets[0].path, Path::new("/mnt/a"));
            assert_eq!(pfs.targets[1].domain.as_deref(), Some("rack1"));
            assert_eq!(pfs.targets[1].node.as_deref(), Some("n3"));
            let throttle = pfs.throttle.as_ref().expect("a throttle");
            assert_eq!(throttle.write, Some(Rate(80_000_000)));
        }
    }

    #[test]
    fn little_needs_to_be_said() {
        let config =
            Config::parse("[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['/x']", "test").expect("parses");
        assert_eq!(config.store.replicas, Replicas::default());
        assert_eq!((config.store.ack, config.store.block), (Ack::Placed, Bytes(1 << 20)));
        assert!(Ack::Placed < Ack::Replicated && Ack::Replicated < Ack::Durable);
    }

    #[test]
    fn all_that_a_configuration_may_say_is_kept() {
        let text = r#"
            [store]
            replicas = { min = 1, max = 5, default = 3 }
            ack = "placed"
            requirements = ["min_read_latency"]
            block = "1MiB"
            cost_model = "measured"
            [[rule]]
            prefix = "checkpoints/"
            requirements = ["max_durability"]
            [[tier]]
            name = "ram"
            kind = "directory"
            targets = ["/dev/shm/terrace"]
            capacity = "2GiB"
            persistent = false
            [[tier]]
            name = "pfs"
            kind = "directory"
            layout = "plain"
            targets = ["/mnt/a", { path = "/mnt/b", domain = "rack1", node = "n3" }]
            throttle = { read = "100MB/s", write = "80MB/s", latency = "5ms" }
            [[tier]]
            name = "bucket"
            kind = "object"
            service = "redis"
            options = { endpoint = "tcp://10.0.0.1:6379", db = "2" }
        "#;
        let config = Config::parse(text, "test").expect("parses");
        assert_eq!((config.rules.len(), config.tiers.len()), (1, 3));
        assert_eq!(config.tiers[2].options.get("db").map(String::as_str), Some("2"));
        assert_eq!(Config::parse(&config.to_toml(), "again").expect("parses").to_toml(), config.to_toml());
    }

    #[test]
    fn plain_layout_is_the_tiers_or_the_rules() {
        let text = TWO_TIERS.replacen("kind = \"directory\"", "kind = \"directory\"\nlayout = \"plain\"", 1)
            + "\n[[rule]]\nprefix = \"packed\"\nlayout = \"frames\"\n[[rule]]\nprefix = \"files\"\nlayout = \"plain\"\n";
        let config = Config::parse(&text, "test").expect("parses");
        assert!(config.has_plain() && config.is_plain(0, b"a") && !config.is_plain(1, b"a"));
        assert!(config.is_plain(1, b"files/a") && !config.is_plain(1, b"packed/a"));
        assert!(!config.is_plain(1, &[b"files/".as_slice(), &[b'x'; 256]].concat()), "no file system has such a name");
        assert!(!config.is_plain(0, b".terrace/uploads/0000000000000001/0000000001"));
        assert!(!Config::parse(TWO_TIERS, "test").expect("parses").has_plain());
        assert_eq!(Config::parse(&config.to_toml(), "again").expect("parses").to_toml(), config.to_toml());
    }

    #[test]
    fn the_first_rule_whose_prefix_matches_whole_components_holds() {
        let config = Config::parse(TWO_TIERS, "test").expect("parses");
        assert_eq!(config.rule_for(b"checkpoints/1").and_then(|rule| rule.replicas), Some(3));
        assert!(config.rule_for(b"checkpoints/scratch/1").is_some_and(|rule| !rule.volatile));
        assert!(config.rule_for(b"checkpoints2").is_none());
    }

    #[test]
    fn a_target_below_a_directory_that_no_text_can_name_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let mut config = Config::parse(TWO_TIERS, "t.toml").expect("parses");
        config.tiers[0].targets[0].path = std::ffi::OsStr::from_bytes(b"/dev/shm/\xff").into();
        let error = config.make_paths_absolute().expect_err("no UTF-8").to_string();
        assert!(error.contains("not UTF-8") && error.contains("another directory"), "{error}");
    }

    #[test]
    fn what_does_not_parse_is_refused_with_its_place_and_what_to_write() {
        for (from, to, says) in [
            ("capacity", "capasity", &["line 20, column 1", "`capasity`", "`capacity`"][..]),
            ("\"2GiB\"", "\"2 lots\"", &["line 20, column 12", "2 lots", "64KiB"]),
            ("\"2GiB\"", "2000", &["line 20, column 12", "in quotes, such as \"64KiB\""]),
            ("domain = ", "domian = ", &["line 25", "`domian`", "`domain`"]),
            ("[\"/dev/shm/terrace-test\"]", "[7]", &["line 19", "a path in quotes"]),
            ("\"placed\"", "\"done\"", &["line 4", "`done`", "`replicated`"]),
            (
                "kind = \"directory\"",
                "kind = \"tape\"",
                &["line 18, column 8", "\"tape\"", "directory", "memory", "node", "object"],
            ),
            ("[store]", "[shop]", &["line 2", "`shop`", "`store`"]),
            ("latency = \"5ms\"", "latency = \"5\"", &["line 26", "1.5s"]),
        ] {
            let error = Config::parse(&TWO_TIERS.replacen(from, to, 1), "t.toml").expect_err(to).to_string();
            assert!(error.contains("t.toml"), "{error}");
            for part in says {
                assert!(error.contains(part), "{part:?} is not in: {error}");
            }
        }
    }
}
