//! The options that an object keeps: a text in one of its attributes, for its later writes and for the replicas that are made of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustix_futex_sync::Mutex;
use terrace_catalog::Object;
use terrace_format::key;

use super::PutOptions;
use crate::{Error, Result};

/// The attribute of an object that holds the options with which it was written, as TOML.
const ASKED_ATTRIBUTE: &str = "terrace.asked";
/// The number of different texts that a process remembers. It forgets them all when there are more.
const MAX_REMEMBERED_TEXTS: usize = 256;

/// Options as the attribute of an object has them. None if they leave everything open.
pub(crate) struct KeptText(Option<String>);

impl KeptText {
    /// Stores the options in an object's attributes, instead of those that are there.
    pub fn store_in(self, user: &mut BTreeMap<String, String>) {
        match self.0 {
            Some(text) => user.insert(ASKED_ATTRIBUTE.to_owned(), text),
            None => user.remove(ASKED_ATTRIBUTE),
        };
    }
}

impl PutOptions {
    /// Returns the options that were given when the object at `key` was written. They apply as long as it exists, and override rules.
    ///
    /// # Errors
    /// [`Error::KeptOptions`] if another version of Terrace has written them in a way that this one does not know.
    pub fn kept_with(key: &[u8], object: &Object) -> Result<PutOptions> {
        PutOptions::kept_in(&object.attributes.user).map_err(|reason| not_understood(key, reason))
    }

    /// Returns the options that an object's attributes hold, or the reason why they are not understood.
    pub(crate) fn kept_in(user: &BTreeMap<String, String>) -> Result<PutOptions, String> {
        user.get(ASKED_ATTRIBUTE).map_or_else(|| Ok(PutOptions::default()), |text| parse(text))
    }

    /// Returns these options for an object's attributes, with the acknowledgement that each of its writes waits for.
    ///
    /// # Errors
    /// [`Error::Config`] if TOML cannot express them.
    pub(crate) fn to_kept(&self) -> Result<KeptText> {
        let says_any = self.says_how() || self.levels().any(|level| level.replicas.is_some() || level.ack.is_some());
        let text = says_any.then(|| toml::to_string(self)).transpose();
        text.map(KeptText)
            .map_err(|error| Error::Config(format!("the options cannot be kept with the object: {error}")))
    }
}

/// The parsed options of objects, by their text. Each write of a part of an object needs them, and many objects have the same ones.
#[derive(Default)]
pub(crate) struct KeptOptions {
    /// A leaf, held for a lookup or an insertion.
    parsed: Mutex<HashMap<String, Result<Arc<PutOptions>, String>>>,
}

impl KeptOptions {
    /// Returns the options that were given when the object at `key` was written.
    ///
    /// # Errors
    /// As [`PutOptions::kept_with`].
    pub fn of(&self, key: &[u8], object: Option<&Object>) -> Result<Arc<PutOptions>> {
        let Some(text) = object.and_then(|object| object.attributes.user.get(ASKED_ATTRIBUTE)) else {
            return Ok(Arc::default());
        };
        if let Some(known) = self.parsed.lock().get(text) {
            return known.clone().map_err(|reason| not_understood(key, reason));
        }
        let parsed = parse(text).map(Arc::new);
        if let Err(reason) = &parsed {
            tracing::warn!(key = %key::show(key), reason, "the options kept with an object are not understood; its replicas follow the rules alone");
        }
        let mut known = self.parsed.lock();
        if known.len() >= MAX_REMEMBERED_TEXTS {
            known.clear();
        }
        known.insert(text.clone(), parsed.clone());
        parsed.map_err(|reason| not_understood(key, reason))
    }

    /// Like [`KeptOptions::of`], for work on replicas in the background. It has to go on without options that are not understood, which
    /// were reported when they were parsed.
    pub fn of_replicas(&self, key: &[u8], object: Option<&Object>) -> Arc<PutOptions> {
        self.of(key, object).unwrap_or_default()
    }
}

fn parse(text: &str) -> Result<PutOptions, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
}

fn not_understood(key: &[u8], reason: String) -> Error {
    Error::KeptOptions { key: key::show(key), reason }
}

#[cfg(test)]
mod tests {
    use terrace_catalog::Attributes;

    use super::*;
    use crate::config::Ack;

    fn object(text: &str) -> Object {
        let mut attributes = Attributes::default();
        attributes.user.insert(ASKED_ATTRIBUTE.to_owned(), text.to_owned());
        Object { id: 1, generation: 1, length: 0, want: 1, attributes, extents_in_record: None }
    }

    #[test]
    fn each_text_is_parsed_once() {
        let (kept, mut object) = (KeptOptions::default(), object("replicas = 2\nack = 'durable'"));
        let first = kept.of(b"a", Some(&object)).unwrap();
        assert_eq!((first.replicas, first.ack), (Some(2), Some(Ack::Durable)));
        assert!(Arc::ptr_eq(&first, &kept.of(b"b", Some(&object)).unwrap()));
        let changed = PutOptions { replicas: Some(3), ..PutOptions::default() };
        changed.to_kept().unwrap().store_in(&mut object.attributes.user);
        assert_eq!(*kept.of(b"a", Some(&object)).unwrap(), changed);
        PutOptions::default().to_kept().unwrap().store_in(&mut object.attributes.user);
        assert_eq!(*kept.of(b"a", Some(&object)).unwrap(), PutOptions::default());
        assert_eq!(*kept.of(b"a", None).unwrap(), PutOptions::default());
    }

    /// Options that were not understood counted as none, so a write that should have been durable was not. Later, this was still so for an
    /// option with an unknown name.
    #[test]
    fn options_that_are_not_understood_are_an_error() {
        for (text, wrong) in [
            ("ack = 'engraved in stone'", "engraved in stone"),
            ("eternal = true", "eternal"),
            ("replicas = 2\n[below]\neternal = true", "eternal"),
        ] {
            let (kept, object) = (KeptOptions::default(), object(text));
            for _ in 0..2 {
                let error = kept.of(b"a/b", Some(&object)).unwrap_err().to_string();
                assert!(error.contains("\"a/b\"") && error.contains(wrong), "{error}");
            }
            assert!(matches!(PutOptions::kept_with(b"a/b", &object), Err(Error::KeptOptions { .. })));
            assert_eq!(*kept.of_replicas(b"a/b", Some(&object)), PutOptions::default());
        }
    }
}
