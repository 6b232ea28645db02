//! Checks of configurations beyond their syntax.

use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};

use terrace_codec::{Encoding, Scratch, encode};
use terrace_format::frame;
use terrace_plan::snapshot::{MAX_TARGETS, MAX_TIERS};
use terrace_system::real_path;

use super::origin::check_origins;
use super::{Config, Layout, Replicas, TargetConfig, TierConfig};

/// Checks a configuration. The error says what is wrong and where.
pub fn check(config: &Config) -> Result<(), String> {
    store(config)?;
    tiers(&config.tiers)?;
    targets(&config.tiers)?;
    kinds(&config.tiers)?;
    rules(config)?;
    check_origins(&config.origins)
}

fn store(config: &Config) -> Result<(), String> {
    let Replicas { min, max, default } = config.store.replicas;
    if !(1 <= min && min <= default && default <= max && max <= 16) {
        let given = format!("min = {min}, default = {default}, max = {max}");
        return Err(format!("[store] replicas: 1 <= min <= default <= max <= 16 does not hold with {given}"));
    }
    let block = config.store.block;
    if block.0 == 0 || block.0 > u64::from(frame::MAX_EXTENT_BYTES) || !block.0.is_multiple_of(4096) {
        return Err(format!(
            "[store] block: {block} is not a multiple of 4KiB up to 1MiB; write, for example, \"1MiB\""
        ));
    }
    Ok(())
}

fn tiers(tiers: &[TierConfig]) -> Result<(), String> {
    if tiers.is_empty() {
        return Err("there is no [[tier]]; a store needs at least one".into());
    }
    if let Some(tier) = tiers.get(MAX_TIERS) {
        return Err(format!(
            "tier {:?} is number {}, and a store has at most {MAX_TIERS}; list targets that are alike under one [[tier]]",
            tier.name,
            MAX_TIERS + 1
        ));
    }
    let mut targets = 0;
    for tier in tiers {
        targets += tier.targets.len();
        if targets > MAX_TARGETS {
            return Err(format!(
                "with tier {:?}, there are more than {MAX_TARGETS} targets; leave some out",
                tier.name
            ));
        }
    }
    let mut names = HashSet::new();
    for (number, tier) in (1..).zip(tiers) {
        let name = tier.name.as_str();
        if name.trim().is_empty() {
            return Err(format!("[[tier]] number {number} has an empty name; write name = \"disk\" or the like"));
        }
        if !names.insert(name) {
            return Err(format!("tier {name:?}: another tier has the same name; each tier needs a name of its own"));
        }
        if tier.targets.is_empty() {
            return Err(format!("tier {name:?} has no targets; write targets = [\"/mnt/a\"] or the like"));
        }
        if tier.capacity.is_some_and(|capacity| capacity.0 == 0) {
            return Err(format!("tier {name:?}: a capacity of 0 holds nothing; leave it out to set no limit"));
        }
        if !(tier.watts.is_finite() && tier.watts >= 0.0) {
            return Err(format!("tier {name:?}: watts is a number, 0 or more, such as 5.0"));
        }
        if tier.persistent && tier.kind.capabilities().ends_with_process {
            return Err(format!(
                "tier {name:?}: what it keeps ends with the process, so it is not persistent; add `persistent = false`"
            ));
        }
        if tier.layout == Layout::Plain && !tier.kind.capabilities().plain_files {
            return Err(format!("tier {name:?}: layout = \"plain\" is for kind = \"directory\"; leave it out"));
        }
        if !(0.0 < tier.high_watermark && tier.high_watermark <= 1.0) {
            return Err(format!("tier {name:?}: high_watermark is a share, above 0 and at most 1, such as 0.9"));
        }
    }
    if !tiers.iter().any(|tier| tier.persistent) {
        let names: Vec<&str> = tiers.iter().map(|tier| tier.name.as_str()).collect();
        let names = names.join(", ");
        return Err(format!(
            "no tier is persistent ({names}); remove `persistent = false` from a tier that survives a reboot"
        ));
    }
    Ok(())
}

/// Checks that no target is another target's directory, or lies inside it.
fn targets(tiers: &[TierConfig]) -> Result<(), String> {
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    for tier in tiers.iter().filter(|tier| tier.kind.capabilities().local_path) {
        let name = tier.name.as_str();
        for target in &tier.targets {
            if target.path.as_os_str().is_empty() {
                return Err(format!("tier {name:?}: a target has an empty path"));
            }
            let path = real_path(&target.path);
            if let Some((other, theirs)) = known.iter().find(|(_, p)| p.starts_with(&path) || path.starts_with(p)) {
                return Err(format!(
                    "tier {name:?}: target {} is, holds or lies inside {} of tier {other:?}; give each target its own directory",
                    path.display(),
                    theirs.display()
                ));
            }
            known.push((name, path));
        }
    }
    Ok(())
}

/// Each kind checks the configuration of its targets.
fn kinds(tiers: &[TierConfig]) -> Result<(), String> {
    let mut known = Vec::new();
    for tier in tiers {
        for target in &tier.targets {
            let checked = tier.kind.check(&tier.settings(target));
            checked.map_err(|reason| format!("tier {:?}: {reason}", tier.name))?;
            if tier.kind.capabilities().remote {
                apart(Prefix::of(tier, target), &mut known)?;
            }
        }
    }
    Ok(())
}

/// The service and path of a target behind a network.
struct Prefix<'a> {
    tier: &'a str,
    kind: &'a str,
    service: Option<&'a str>,
    options: BTreeMap<&'a String, &'a String>,
    parts: Vec<Component<'a>>,
}

impl Prefix<'_> {
    fn of<'a>(tier: &'a TierConfig, target: &'a TargetConfig) -> Prefix<'a> {
        let parts = target.path.components().filter(|part| *part != Component::RootDir).collect();
        let options = tier.options.iter().chain(&target.options).collect();
        Prefix { tier: &tier.name, kind: tier.kind.name(), service: tier.service.as_deref(), options, parts }
    }
}

/// Checks that no target behind a network is another one, or lies inside it.
fn apart<'a>(one: Prefix<'a>, known: &mut Vec<Prefix<'a>>) -> Result<(), String> {
    let overlaps = |other: &&Prefix<'_>| {
        let nested = one.parts.starts_with(&other.parts) || other.parts.starts_with(&one.parts);
        nested && (one.kind, one.service, &one.options) == (other.kind, other.service, &other.options)
    };
    if let Some(other) = known.iter().find(overlaps) {
        let path = |prefix: &Prefix<'_>| Path::new("/").join(prefix.parts.iter().collect::<PathBuf>());
        return Err(format!(
            "tier {:?}: target {} is, holds or lies inside {} of tier {:?}; give each target its own path",
            one.tier,
            path(&one).display(),
            path(other).display(),
            other.tier
        ));
    }
    known.push(one);
    Ok(())
}

/// Checks that an encoding runs, because some codecs take numbers only.
fn encodes(of: &str, encoding: Option<&Encoding>) -> Result<(), String> {
    let Some(encoding) = encoding else { return Ok(()) };
    let run = encode(*encoding, &[0; 256], &mut Vec::new(), &mut Scratch::default());
    run.map(drop).map_err(|e| format!("{of}: encoding: {e}"))
}

fn rules(config: &Config) -> Result<(), String> {
    let Replicas { min, max, .. } = config.store.replicas;
    let names: Vec<&str> = config.tiers.iter().map(|tier| tier.name.as_str()).collect();
    for rule in &config.rules {
        let of = format!("rule {:?}", rule.prefix);
        let parts: Vec<&str> = rule.prefix.split('/').filter(|part| !part.is_empty()).collect();
        let plain = parts.join("/");
        if parts.iter().any(|part| [".", ".."].contains(part)) {
            return Err(format!("{of}: no key has a component \".\" or \"..\", so the rule applies to none"));
        }
        if plain != rule.prefix.strip_suffix('/').unwrap_or(&rule.prefix) {
            return Err(format!("{of}: no key begins so; write the prefix as {plain:?}"));
        }
        encodes(&of, rule.encoding.as_deref())?;
        if let Some(replicas) = rule.replicas.filter(|replicas| !(min..=max).contains(replicas)) {
            return Err(format!("{of}: replicas = {replicas} is not in {min}..{max}, the [store]'s min and max"));
        }
        if rule.tiers.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("{of}: tiers = [] allows no tier; name some of {}", names.join(", ")));
        }
        if let Some(name) = rule.tiers.iter().flatten().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("{of}: there is no tier {name:?}; there are {}", names.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(name: &str, rest: &str) -> String {
        format!("[[tier]]\nname = '{name}'\nkind = 'directory'\n{rest}\n")
    }

    fn refused(text: &str, says: &[&str]) {
        let error = Config::parse(text, "t.toml").expect_err(text).to_string();
        for part in ["t.toml"].iter().chain(says) {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }

    #[test]
    fn tiers_that_cannot_be_are_refused_by_name() {
        let good = tier("a", "targets = ['/mnt/a']");
        assert!(Config::parse(&good, "t.toml").is_ok());
        refused("", &["no [[tier]]"]);
        refused(&format!("{good}{}", tier("a", "targets = ['/mnt/b']")), &["\"a\"", "of its own"]);
        refused(&format!("{good}{}", tier("", "targets = ['/mnt/b']")), &["number 2", "empty name"]);
        refused(&format!("{good}persistent = false"), &["no tier is persistent", "(a)"]);
        refused(&format!("{good}high_watermark = 90.0"), &["\"a\"", "high_watermark"]);
        refused(&format!("{good}capacity = '0B'"), &["\"a\"", "capacity"]);
        assert!(Config::parse(&format!("{good}layout = 'plain'"), "t.toml").is_ok());
        refused(&format!("{good}layout = 'file'"), &["`file`", "`plain`"]);
        let memory = "[[tier]]\nname = 'm'\nkind = 'memory'\ntargets = ['x']\n";
        refused(&format!("{good}{memory}"), &["\"m\"", "ends with the process", "`persistent = false`"]);
        let memory = format!("{memory}persistent = false\n");
        assert!(Config::parse(&format!("{good}{memory}"), "t.toml").is_ok());
        refused(&format!("{good}{memory}layout = 'plain'"), &["\"m\"", "layout", "directory"]);
        refused(&tier("a", "targets = []"), &["\"a\"", "no targets"]);
        refused(&tier("a", "targets = ['']"), &["\"a\"", "empty path"]);
    }

    #[test]
    fn targets_that_overlap_are_refused_whatever_they_are_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir(root.join("a")).expect("a directory");
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).expect("a link");
        let root = root.display();
        let first = tier("first", &format!("targets = ['{root}/a']"));
        for other in ["a", "a/", "a/b", "b/../a", "link", "link/b/c", "./a", ""] {
            let second = tier("second", &format!("targets = ['{root}/b', '{root}/{other}']"));
            refused(&format!("{first}{second}"), &["second", "own directory"]);
        }
        let second = tier("second", &format!("targets = ['{root}/b', '{root}/ab', '{root}/a-b']"));
        assert!(Config::parse(&format!("{first}{second}"), "t.toml").is_ok(), "names that only begin alike");
        let memory = "[[tier]]\nname = 'm'\nkind = 'memory'\ntargets = ['x', 'x']\npersistent = false\n";
        assert!(Config::parse(&format!("{first}{memory}"), "t.toml").is_ok(), "memory has no paths");
    }

    #[test]
    fn options_that_a_kind_does_not_read_are_refused() {
        for (line, key) in [("service = 's3'", "service"), ("options = { a = 'b' }", "options")] {
            refused(&tier("a", &format!("targets = ['/mnt/a']\n{line}")), &["\"a\"", key, "this kind"]);
        }
        refused(&tier("a", "targets = [{ path = '/mnt/a', options = { a = 'b' } }]"), &["\"a\"", "options"]);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_its_place_and_the_kinds_that_there_are() {
        let text = format!("{}[[tier]]\nname = 'b'\nkind = 'disc'\n", tier("a", "targets = ['/mnt/a']"));
        refused(&text, &["line 7, column 8", "unknown kind \"disc\"", "directory", "memory", "node", "object"]);
    }

    fn object(rest: &str) -> String {
        format!("[[tier]]\nname = 'o'\nkind = 'object'\n{rest}\n")
    }

    #[test]
    fn a_service_that_is_not_there_is_refused_with_the_feature_that_brings_it() {
        refused(&object(""), &["\"o\"", "service = \"s3\""]);
        refused(&object("service = 'tape'"), &["\"o\"", "services-tape"]);
    }

    #[cfg(feature = "services-memory")]
    #[test]
    fn object_targets_that_overlap_are_refused_and_others_are_not() {
        let tier = |rest: &str| object(&format!("service = 'memory'\n{rest}"));
        let read = |rest: &str| Config::parse(&tier(rest), "t.toml").map(|config| config.tiers[0].targets.clone());
        assert_eq!(read("").expect("a root").iter().map(|t| t.path.clone()).collect::<Vec<_>>(), [Path::new("/")]);
        read("targets = ['/a', '/b/c', 'b/cc']").expect("three roots");
        read("targets = [{ path = '/a', options = { x = 1 } }, { path = '/a', options = { x = true } }]").expect("two");
        for targets in ["'/a', 'a/'", "'/a/b', '/a'", "'/', '/a'"] {
            refused(&tier(&format!("targets = [{targets}]")), &["\"o\"", "its own path"]);
        }
        refused(&tier("options = { root = '/x' }"), &["\"o\"", "among the targets"]);
        refused(&tier("options = { x = [1] }"), &["an option's value"]);
    }

    #[test]
    fn defaults_and_rules_that_cannot_be_are_refused() {
        let good = tier("a", "targets = ['/mnt/a']");
        for replicas in [(0, 5, 3), (1, 17, 3), (4, 5, 3), (1, 2, 3)] {
            let (min, max, default) = replicas;
            let store = format!("store.replicas = {{ min = {min}, max = {max}, default = {default} }}\n");
            refused(&format!("{store}{good}"), &["replicas", "does not hold"]);
        }
        for block in ["0B", "2MiB", "5000B"] {
            refused(&format!("store.block = '{block}'\n{good}"), &["block"]);
        }
        refused(&format!("store.requirements = ['fast']\n{good}"), &["line 1, column 22", "\"fast\"", "min_energy"]);
        let rule = |line: &str| format!("{good}[[rule]]\nprefix = 'x'\n{line}\n");
        for (prefix, says) in [("/p/q/", "write the prefix as \"p/q\""), ("p//q", "\"p/q\""), ("p/../q", "no key has")]
        {
            refused(&format!("{good}[[rule]]\nprefix = '{prefix}'\n"), &[says]);
        }
        assert!(Config::parse(&rule("tiers = ['a']\nreplicas = 5"), "t.toml").is_ok());
        refused(&rule("tiers = ['b']"), &["rule \"x\"", "no tier \"b\"", "there are a"]);
        refused(&rule("replicas = 6"), &["rule \"x\"", "1..5"]);
        assert!(Config::parse(&rule("encoding = 'shuffle4+zstd-1'"), "t.toml").is_ok());
        refused(&rule("encoding = 'zstd+1'"), &["line 7, column 12", "no encoding is named"]);
        refused(&rule("encoding = 'pco'"), &["rule \"x\"", "no type of number"]);
        refused(&rule("requirements = ['min_read_latency', 'x']"), &["line 7, column 16", "\"x\" is no requirement"]);
    }
}
