//! `[[origin]]`: a place outside of the store, whose files the store shows below a prefix.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_format::key;
use terrace_tier::{OriginAddress, OriginPlace};

use super::{Config, Time};

/// `[[origin]]`: a place outside of the store, whose files the store shows below a prefix, and reads when they are read.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginConfig {
    /// The key of the folder in which its files are shown.
    pub prefix: String,
    /// Its number, which the store assigns. Objects name it.
    pub number: u32,
    /// The directory or URL.
    pub url: String,
    /// Options for OpenDAL. `${NAME}` stands for an environment variable.
    #[serde(default, deserialize_with = "super::tier::options", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Names and attributes are asked for again after this time.
    #[serde(default = "one_minute")]
    pub max_age: Time,
    /// The inode of a directory. Another directory at its place is not taken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Whether its objects are being removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

impl fmt::Debug for OriginConfig {
    /// Leaves out the options, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OriginConfig { prefix, number, url, .. } = self;
        write!(f, "OriginConfig {{ prefix: {prefix:?}, number: {number}, url: {url:?} }}")
    }
}

/// The time after which names are asked for again, unless another one is given.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60);

fn one_minute() -> Time {
    Time(DEFAULT_MAX_AGE)
}

impl Config {
    /// Returns the origin whose files have a key, if it is at or below the prefix of one.
    pub(crate) fn origin_of(&self, key: &[u8]) -> Option<&OriginConfig> {
        self.origins.iter().find(|origin| key::below(key, origin.prefix.as_bytes()))
    }

    /// Returns whether an object may be in memory alone: its rule allows it, or its bytes are at an origin.
    pub(crate) fn may_be_volatile(&self, key: &[u8]) -> bool {
        self.rule_for(key).is_some_and(|rule| rule.volatile) || self.origin_of(key).is_some()
    }
}

/// Checks the origins of a configuration. The error says what is wrong and where.
pub(super) fn check_origins(origins: &[OriginConfig]) -> Result<(), String> {
    for (at, origin) in origins.iter().enumerate() {
        let prefix = &origin.prefix;
        let named = |reason: &dyn fmt::Display| format!("origin {prefix:?}: {reason}");
        key::check(prefix.as_bytes()).map_err(|error| named(&error))?;
        if key::below(prefix.as_bytes(), key::RESERVED_FOLDER) {
            return Err(named(&"names below .terrace are the store's own; choose another prefix"));
        }
        OriginAddress::parse(&origin.url, &origin.options).map_err(|error| named(&error))?;
        for other in &origins[..at] {
            let (one, two) = (prefix.as_bytes(), other.prefix.as_bytes());
            if key::below(one, two) || key::below(two, one) {
                return Err(named(&format_args!(
                    "it is, holds or lies inside the prefix {:?} of another origin; choose another one",
                    other.prefix
                )));
            }
            if origin.number == other.number {
                return Err(named(&format_args!(
                    "it has the number of origin {:?}; give it another one",
                    other.prefix
                )));
            }
        }
        #[cfg(feature = "object")]
        if let Ok(OriginPlace::Service { name, .. }) = OriginAddress::parse(&origin.url, &origin.options)
            && let Some(reason) = terrace_tier::unavailable(&name)
        {
            return Err(named(&reason));
        }
        #[cfg(not(feature = "object"))]
        if let Ok(OriginPlace::Service { name, .. }) = OriginAddress::parse(&origin.url, &origin.options) {
            return Err(named(&format_args!("service {name:?} is not compiled in; build with its cargo feature")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(origins: &str) -> crate::Result<Config> {
        let tier = "[[tier]]\nname = 'a'\nkind = 'directory'\ntargets = ['/mnt/a']\n";
        Config::parse(&format!("{tier}{origins}"), "t.toml")
    }

    fn origin(prefix: &str, number: u32, rest: &str) -> String {
        format!("[[origin]]\nprefix = '{prefix}'\nnumber = {number}\n{rest}\n")
    }

    #[test]
    fn an_origin_has_the_keys_at_and_below_its_prefix() {
        let config = parse(&origin("data/era5", 3, "url = '/pfs/era5'")).expect("parses");
        let of = |key: &str| config.origin_of(key.as_bytes()).map(|origin| origin.number);
        assert_eq!(
            [of("data/era5"), of("data/era5/a/b"), of("data"), of("data/era50")],
            [Some(3), Some(3), None, None]
        );
        assert_eq!(config.origins[0].max_age.0, DEFAULT_MAX_AGE);
        assert!(config.may_be_volatile(b"data/era5/x") && !config.may_be_volatile(b"data/x"));
        let text = config.to_toml();
        assert_eq!(Config::parse(&text, "t.toml").expect(&text).origins, config.origins);
    }

    #[test]
    fn origins_that_cannot_be_are_refused_by_their_prefix() {
        let refused = |text: &str, says: &str| {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{says:?} is not in: {error}");
        };
        let first = origin("a/b", 1, "url = '/x'");
        for (prefix, says) in [
            ("a/b/c", "inside"),
            ("a", "holds"),
            ("a/b", "is, "),
            (".terrace/x", ".terrace"),
            ("/a", "empty component"),
        ] {
            refused(&format!("{first}{}", origin(prefix, 2, "url = '/y'")), says);
        }
        refused(&format!("{first}{}", origin("c", 1, "url = '/y'")), "the number");
        refused(&origin("a", 1, "url = 'tape://x'"), "tape");
        refused(&origin("a", 1, "url = 'https://u:p@x/'"), "options");
        refused(&origin("a", 1, "url = '/x'\nage = 3"), "age");
    }

    #[test]
    fn options_are_not_printed() {
        let text = origin("a", 1, "url = '/x'\noptions = { secret_access_key = 'hidden' }");
        let config = parse(&text).expect("parses");
        assert!(!format!("{config:?}").contains("hidden"));
        assert!(!config.without_secrets().to_toml().contains("hidden"));
    }
}
