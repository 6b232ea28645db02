//! The kinds of targets that this process knows, by name.
//!
//! The process has one registry. All doors of a process share an open store, so they have to know the same kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use rustix_futex_sync::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use terrace_system::fork;

use super::TargetKind;
use super::kinds::{DirectoryKind, MemoryKind, ObjectKind};

type Kinds = BTreeMap<Arc<str>, Arc<dyn TargetKind>>;

/// Held for one lookup or insertion, under `fork::hold`: a fork during that time would inherit the lock, and no thread that
/// releases it.
static KNOWN_KINDS: LazyLock<Mutex<Kinds>> = LazyLock::new(|| {
    let built_in: [(&str, Arc<dyn TargetKind>); 3] =
        [("directory", Arc::new(DirectoryKind)), ("memory", Arc::new(MemoryKind)), ("object", Arc::new(ObjectKind))];
    Mutex::new(Kinds::from(built_in.map(|(name, kind)| (Arc::from(name), kind))))
});

/// An error of the registry of kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KindError {
    /// No kind has this name.
    Unknown {
        /// The name.
        name: String,
        /// The names of all kinds that this process knows.
        known: Vec<String>,
    },
    /// Another kind has this name.
    Taken {
        /// The name.
        name: String,
    },
    /// A name has only lower-case letters of ASCII, digits and `-`.
    BadName {
        /// The name.
        name: String,
    },
}

impl fmt::Display for KindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KindError::Unknown { name, known } => write!(
                f,
                "unknown kind {name:?}; this program knows {}. For another kind use a program that registers it",
                known.join(", ")
            ),
            KindError::Taken { name } => write!(f, "a kind {name:?} is registered already; give this one another name"),
            KindError::BadName { name } => {
                write!(f, "a kind cannot be called {name:?}; use lower-case letters of ASCII, digits and `-`")
            }
        }
    }
}

impl std::error::Error for KindError {}

/// Registers a kind of target for this process, so that `kind = "NAME"` in `terrace.toml` selects it. A store with a tier
/// of this kind can be made and opened from then on.
///
/// ```
/// use terrace_tier::{KindError, MemoryKind, TierKind, register_kind};
///
/// // A kind of one's own implements `TargetKind`, or `FrameMap`, which is less work.
/// register_kind("scratch", MemoryKind)?;
/// assert_eq!(TierKind::find("scratch")?.name(), "scratch");
/// assert!(matches!(register_kind("scratch", MemoryKind), Err(KindError::Taken { .. })));
/// # Ok::<(), KindError>(())
/// ```
///
/// # Errors
/// [`KindError::Taken`] and [`KindError::BadName`].
pub fn register_kind(name: &str, kind: impl TargetKind + 'static) -> Result<(), KindError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_allowed) {
        return Err(KindError::BadName { name: name.to_owned() });
    }
    // No fork may inherit the locked registry: see `KNOWN_KINDS`.
    let _held = fork::hold();
    let mut known = KNOWN_KINDS.lock();
    if known.contains_key(name) {
        return Err(KindError::Taken { name: name.to_owned() });
    }
    known.insert(name.into(), Arc::new(kind));
    Ok(())
}

/// A registered kind of target.
#[derive(Clone)]
pub struct TierKind {
    name: Arc<str>,
    kind: Arc<dyn TargetKind>,
}

impl TierKind {
    /// Finds a kind by its name.
    ///
    /// # Errors
    /// [`KindError::Unknown`].
    pub fn find(name: &str) -> Result<TierKind, KindError> {
        // No fork may inherit the locked registry: see `KNOWN_KINDS`.
        let _held = fork::hold();
        let known = KNOWN_KINDS.lock();
        match known.get_key_value(name) {
            Some((name, kind)) => Ok(TierKind { name: name.clone(), kind: kind.clone() }),
            None => {
                let known = known.keys().map(|known| known.to_string()).collect();
                Err(KindError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// The kind `directory`.
    pub fn directory() -> TierKind {
        TierKind { name: "directory".into(), kind: Arc::new(DirectoryKind) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Deref for TierKind {
    type Target = dyn TargetKind;

    fn deref(&self) -> &Self::Target {
        &*self.kind
    }
}

impl fmt::Debug for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for TierKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for TierKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TierKind, D::Error> {
        TierKind::find(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_name_of_its_own_and_is_found_by_it() {
        register_kind("tape", MemoryKind).expect("a new name");
        assert_eq!(TierKind::find("tape").expect("registered").name(), "tape");
        for name in ["tape", "directory", "object"] {
            assert_eq!(register_kind(name, MemoryKind), Err(KindError::Taken { name: name.into() }));
        }
        for name in ["", "Tape", "a b", "naïve"] {
            assert_eq!(register_kind(name, MemoryKind), Err(KindError::BadName { name: name.into() }));
        }
        let error = TierKind::find("disc").expect_err("unknown").to_string();
        for word in ["\"disc\"", "directory", "memory", "object"] {
            assert!(error.contains(word), "{error}");
        }
    }
}
