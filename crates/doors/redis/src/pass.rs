//! [`Pass`]: the changes of some commands, which reach the store by one commit.
//!
//! Commands read and change values in a pass. It takes each value from the store at its first use, and remembers which object that
//! was. The commit writes all changed values, and expects that the objects which changes depend on are still the same. If another
//! process has changed one, nothing is written, and the commands run again on a new pass. So commands are atomic, whichever
//! doors and processes use the store at the same time, and clients that send commands together share the cost of a commit.

use std::collections::BTreeMap;

use terrace::catalog::NameListing;
use terrace::key::KeySpace;
use terrace::{Error, Object, PutOptions, Store};

use crate::clock::Moment;
use crate::datum::{Datum, DatumKind, DatumType};
use crate::held::Held;
use crate::mailbox::NamedKey;
use crate::problem::{Problem, WRONG_TYPE};
use crate::request::MAX_WORD_BYTES;

/// The number of names that are listed at a time.
const PAGE_NAMES: usize = 1000;

/// The values that some commands use, and their changes.
pub struct Pass<'s> {
    store: &'s Store,
    databases: &'s [KeySpace],
    cached: Vec<BTreeMap<Vec<u8>, Cached>>,
    /// The time of all its commands.
    pub now: Moment,
    /// Whether the values that are looked at from now on must still be the same at the commit.
    pub depends: bool,
    /// About the bytes of all changes.
    changed_bytes: usize,
}

/// Names in byte order, and the name behind which the next ones are.
pub type NameStep = (Vec<Vec<u8>>, Option<Vec<u8>>);

/// A key that commands of the pass used.
struct Cached {
    found: Found,
    /// The value now. None: the key does not exist.
    held: Option<Held>,
    depends: bool,
    change: Change,
}

/// The object that the store had.
enum Found {
    /// It was not looked at, because it was replaced.
    Unknown,
    Absent,
    There(Box<Object>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Attributes,
    Value,
}

/// The state of a key that a client watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedState(Option<(u64, u64)>);

impl<'s> Pass<'s> {
    /// A pass without changes.
    pub fn new(store: &'s Store, databases: &'s [KeySpace], now: Moment) -> Pass<'s> {
        let cached = databases.iter().map(|_| BTreeMap::new()).collect();
        Pass { store, databases, cached, now, depends: false, changed_bytes: 0 }
    }

    /// About the bytes of all changes.
    pub fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }

    /// The keys whose values were changed.
    pub fn changed_names(&self) -> Vec<NamedKey> {
        let changed = |(db, names): (usize, &BTreeMap<Vec<u8>, Cached>)| -> Vec<NamedKey> {
            let changed = names.iter().filter(|(_, cached)| cached.change == Change::Value);
            changed.map(|(name, _)| (db, name.clone())).collect()
        };
        self.cached.iter().enumerate().flat_map(changed).collect()
    }

    /// Checks that a key can have this name.
    pub fn check_name(&self, db: usize, name: &[u8]) -> Result<(), Problem> {
        self.databases[db].key(name).map(drop).map_err(|error| Error::from(error).into())
    }

    /// Returns the value of a key, without reading its bytes.
    pub fn peek(&mut self, db: usize, name: &[u8]) -> Result<Option<&Held>, Problem> {
        if !self.cached[db].contains_key(name) {
            let key = self.databases[db].key(name).map_err(Error::from)?;
            let object = match self.store.stat(&key) {
                Ok(object) => Some(object),
                Err(Error::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            self.remember(db, name, object, None)?;
        }
        Ok(self.entry(db, name).and_then(|cached| cached.held.as_ref()))
    }

    /// Returns the value of a key.
    pub fn datum(&mut self, db: usize, name: &[u8]) -> Result<Option<&mut Datum>, Problem> {
        let is_read = self.cached[db].get(name).is_some_and(|cached| match &cached.held {
            Some(held) => held.datum.is_some(),
            None => true,
        });
        if !is_read {
            self.read(db, name)?;
        }
        Ok(self.entry(db, name).and_then(|cached| cached.held.as_mut()).and_then(|held| held.datum.as_mut()))
    }

    /// Returns a key with its value.
    pub fn read_held(&mut self, db: usize, name: &[u8]) -> Result<Option<&Held>, Problem> {
        self.datum(db, name)?;
        Ok(self.cached[db].get(name).and_then(|cached| cached.held.as_ref()))
    }

    /// Returns the value of a key, which must be of this type.
    pub fn value<T: DatumType>(&mut self, db: usize, name: &[u8]) -> Result<Option<&mut T>, Problem> {
        match self.datum(db, name)? {
            None => Ok(None),
            Some(datum) => T::of(datum).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Returns the value of a key, which is created if it does not exist. [`Pass::note_change`] must follow.
    pub fn value_or_new<T: DatumType>(&mut self, db: usize, name: &[u8]) -> Result<&mut T, Problem> {
        if self.value::<T>(db, name)?.is_none() {
            let held = Held::new(T::default().into_datum(), None);
            if let Some(cached) = self.cached[db].get_mut(name) {
                cached.held = Some(held);
            }
        }
        self.value::<T>(db, name)?.ok_or(WRONG_TYPE)
    }

    /// Returns some bytes of a string, without reading the others.
    pub fn range(&mut self, db: usize, name: &[u8], start: u64, end: u64) -> Result<Vec<u8>, Problem> {
        self.peek(db, name)?;
        let (store, databases) = (self.store, self.databases);
        let Some(Cached { found, held: Some(held), .. }) = self.entry(db, name) else { return Ok(Vec::new()) };
        if held.kind != DatumKind::String {
            return Err(WRONG_TYPE);
        }
        match (&held.datum, found) {
            (Some(Datum::String(bytes)), _) => {
                let end = usize::try_from(end).unwrap_or(usize::MAX).min(bytes.len());
                let start = usize::try_from(start).unwrap_or(usize::MAX).min(end);
                Ok(bytes[start..end].to_vec())
            }
            (None, Found::There(object)) => {
                let end = end.min(object.length);
                let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
                check_length(length as u64)?;
                let mut bytes = vec![0; length];
                let key = databases[db].key(name).map_err(Error::from)?;
                match store.read_unchanged(&key, object, start, &mut bytes)? {
                    true => Ok(bytes),
                    // The commands run again.
                    false => Err(changed(name).into()),
                }
            }
            _ => Err(WRONG_TYPE),
        }
    }

    /// Gives a key a value, whatever it has had.
    pub fn put(&mut self, db: usize, name: &[u8], held: Held) -> Result<(), Problem> {
        self.databases[db].key(name).map_err(Error::from)?;
        if let Some(Datum::String(bytes)) = &held.datum {
            self.changed_bytes += bytes.len();
        }
        let new = Cached { found: Found::Unknown, held: None, depends: false, change: Change::Nothing };
        let cached = match self.cached[db].get_mut(name) {
            Some(cached) => cached,
            None => self.cached[db].entry(name.to_vec()).or_insert(new),
        };
        cached.held = Some(held);
        cached.change = Change::Value;
        Ok(())
    }

    /// Gives a key a value, or removes it if the value's time is over already.
    pub fn put_or_expire(&mut self, db: usize, name: &[u8], held: Held) -> Result<(), Problem> {
        match held.expiry.is_some_and(|expiry| expiry <= self.now) {
            true => self.remove(db, name).map(drop),
            false => self.put(db, name, held),
        }
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&mut self, db: usize, name: &[u8]) -> Result<bool, Problem> {
        if self.peek(db, name)?.is_none() {
            return Ok(false);
        }
        if let Some(cached) = self.cached[db].get_mut(name) {
            cached.held = None;
            cached.change = Change::Value;
        }
        Ok(true)
    }

    /// Removes a key from its database, and returns its value.
    pub fn take(&mut self, db: usize, name: &[u8]) -> Result<Option<Held>, Problem> {
        self.datum(db, name)?;
        let Some(cached) = self.cached[db].get_mut(name) else { return Ok(None) };
        let held = cached.held.take();
        if held.is_some() {
            cached.change = Change::Value;
        }
        Ok(held)
    }

    /// Notes that the value of a key was changed. A document without elements is removed.
    pub fn note_change(&mut self, db: usize, name: &[u8]) {
        let Some(cached) = self.cached[db].get_mut(name) else { return };
        cached.change = Change::Value;
        if let Some(held) = &mut cached.held {
            held.generation = None;
        }
        let datum = cached.held.as_ref().and_then(|held| held.datum.as_ref());
        match datum {
            Some(datum) if datum.is_gone() => cached.held = None,
            Some(Datum::String(bytes)) => self.changed_bytes += bytes.len(),
            _ => {}
        }
    }

    /// Changes when a key expires.
    pub fn set_expiry(&mut self, db: usize, name: &[u8], expiry: Option<Moment>) -> Result<(), Problem> {
        self.peek(db, name)?;
        if let Some(Cached { held: Some(held), change, .. }) = self.cached[db].get_mut(name)
            && held.expiry != expiry
        {
            held.expiry = expiry;
            held.generation = None;
            *change = if *change == Change::Value { Change::Value } else { Change::Attributes };
        }
        Ok(())
    }

    /// Returns up to some names of a database behind a name, in byte order; and the name behind which the next ones are.
    pub fn names(&self, db: usize, after: Option<&[u8]>, limit: usize) -> Result<NameStep, Problem> {
        let page = self.page(db, after, limit)?;
        let mut names: BTreeMap<Vec<u8>, ()> = page.names.into_iter().map(|(name, _)| (name, ())).collect();
        let is_in = |name: &[u8]| {
            after.is_none_or(|after| name > after) && page.next.as_deref().is_none_or(|next| name <= next)
        };
        for (name, cached) in self.cached[db].iter().filter(|(name, _)| is_in(name)) {
            match cached.held {
                Some(_) => names.insert(name.clone(), ()),
                None => names.remove(name),
            };
        }
        Ok((names.into_keys().collect(), page.next))
    }

    /// Counts the keys of a database, and those that expire.
    pub fn census(&self, db: usize) -> Result<(usize, usize), Problem> {
        let (mut keys, mut expiring, mut after) = (0, 0, None::<Vec<u8>>);
        let mut add = |expires: bool| {
            keys += 1;
            expiring += usize::from(expires);
        };
        loop {
            let page = self.page(db, after.as_deref(), PAGE_NAMES)?;
            let unused = page.names.iter().filter(|(name, _)| !self.cached[db].contains_key(name));
            unused.for_each(|(_, object)| add(object.attributes.expiry().is_some()));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.cached[db].values().filter_map(|cached| cached.held.as_ref()).for_each(|held| add(held.expiry.is_some()));
        Ok((keys, expiring))
    }

    /// Calls `each` with all names of a database, in byte order, until it returns false.
    pub fn each_name(&self, db: usize, mut each: impl FnMut(Vec<u8>) -> bool) -> Result<(), Problem> {
        let mut after = None;
        loop {
            let (names, next) = self.names(db, after.as_deref(), PAGE_NAMES)?;
            let goes_on = names.into_iter().all(&mut each);
            match next {
                Some(next) if goes_on => after = Some(next),
                _ => return Ok(()),
            }
        }
    }

    /// Removes all keys of a database.
    pub fn clear(&mut self, db: usize) -> Result<(), Problem> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.page(db, after.as_deref(), PAGE_NAMES)?;
            for (name, object) in page.names {
                self.cached[db].entry(name).or_insert_with(|| Cached {
                    found: Found::There(Box::new(object)),
                    held: None,
                    depends: false,
                    change: Change::Value,
                });
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        for cached in self.cached[db].values_mut() {
            cached.held = None;
            cached.change = Change::Value;
        }
        Ok(())
    }

    /// Makes everything durable that was committed before.
    pub fn sync(&self) -> Result<(), Error> {
        self.store.mark_placed()
    }

    /// Exchanges the contents of two databases.
    pub fn swap(&mut self, a: usize, b: usize) -> Result<(), Problem> {
        let mut moved = [Vec::new(), Vec::new()];
        for (db, held) in [a, b].into_iter().zip(&mut moved) {
            let mut names = Vec::new();
            self.each_name(db, |name| {
                names.push(name);
                true
            })?;
            for name in names {
                if let Some(value) = self.take(db, &name)? {
                    held.push((name, value));
                }
            }
        }
        for (db, held) in [b, a].into_iter().zip(moved) {
            held.into_iter().try_for_each(|(name, value)| self.put(db, &name, value))?;
        }
        Ok(())
    }

    fn page(&self, db: usize, after: Option<&[u8]>, limit: usize) -> Result<terrace::catalog::NamePage, Problem> {
        let listing = NameListing { after, limit, ..NameListing::default() };
        Ok(self.store.list_names(&self.databases[db], &listing)?)
    }

    /// Returns the state of a key, which changes whenever its value does.
    pub fn watched_state(&mut self, db: usize, name: &[u8]) -> Result<WatchedState, Problem> {
        self.peek(db, name)?;
        Ok(WatchedState(match self.cached[db].get(name) {
            Some(Cached { found: Found::There(object), held: Some(_), .. }) => Some((object.id, object.generation)),
            _ => None,
        }))
    }

    /// Returns an entry, and notes that the commands depend on it.
    fn entry(&mut self, db: usize, name: &[u8]) -> Option<&mut Cached> {
        let depends = self.depends;
        let cached = self.cached[db].get_mut(name)?;
        cached.depends |= depends;
        Some(cached)
    }

    fn read(&mut self, db: usize, name: &[u8]) -> Result<(), Problem> {
        let key = self.databases[db].key(name).map_err(Error::from)?;
        let mut found = None;
        let read = self.store.get_into(&key, 0, None, |object, length| {
            found = Some(object.clone());
            // A value that is too long is refused below.
            vec![0; if length > MAX_WORD_BYTES { 0 } else { length }]
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(Error::NotFound { .. }) => return self.remember(db, name, None, None),
            Err(error) => return Err(error.into()),
        };
        if let Some(object) = &found {
            check_length(object.length)?;
        }
        self.remember(db, name, found, Some(bytes))
    }

    /// Notes what the store has.
    fn remember(
        &mut self,
        db: usize,
        name: &[u8],
        object: Option<Object>,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), Problem> {
        let held = object.as_ref().map(|object| Held::of(object, self.now)).transpose()?.flatten();
        let held = match (held, bytes) {
            (Some(held), Some(bytes)) => {
                let datum = Datum::decode(held.kind, bytes);
                let datum = datum.ok_or_else(|| {
                    Problem::from(format!(
                        "ERR the value is no {}: its object was written by another program",
                        held.kind.name()
                    ))
                })?;
                Some(Held { datum: Some(datum), ..held })
            }
            (held, _) => held,
        };
        let found = object.map_or(Found::Absent, |object| Found::There(Box::new(object)));
        let earlier = self.cached[db].get(name);
        if let Some(earlier) = earlier
            && earlier.depends
            && !earlier.found.is(&found)
        {
            return Err(changed(name).into());
        }
        let (depends, change) = earlier.map_or((false, Change::Nothing), |earlier| (earlier.depends, earlier.change));
        let held = match (held, earlier.and_then(|earlier| earlier.held.as_ref())) {
            // The expiry may have been changed in this pass.
            (Some(held), Some(earlier)) => {
                let generation = earlier.generation.and(held.generation);
                Some(Held { expiry: earlier.expiry, generation, ..held })
            }
            (held, _) => held,
        };
        self.cached[db].insert(name.to_vec(), Cached { found, held, depends, change });
        Ok(())
    }

    /// Writes all changes by one commit.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a value is not as it was; nothing was changed then, and the commands must run again.
    pub fn commit(mut self) -> Result<(), Error> {
        let cached = std::mem::take(&mut self.cached);
        let mut used = Vec::new();
        for (space, names) in self.databases.iter().zip(&cached) {
            for (name, cached) in names.iter().filter(|(_, cached)| cached.depends || cached.change != Change::Nothing)
            {
                used.push((space.key(name)?, cached));
            }
        }
        if used.iter().all(|(_, cached)| cached.change == Change::Nothing) {
            return self.check_together(&used);
        }
        let mut batch = self.store.batch();
        for (key, cached) in &used {
            self.add(&mut batch, key, cached)?;
        }
        batch.commit().map(drop)
    }

    fn add<'a>(&self, batch: &mut terrace::Batch<'a>, key: &'a [u8], cached: &Cached) -> Result<(), Error> {
        let needs_expectation = cached.depends || cached.change == Change::Attributes || cached.held.is_none();
        match &cached.found {
            Found::There(object) if needs_expectation => batch.unchanged(key, object),
            Found::Absent if needs_expectation => batch.absent(key),
            _ => {}
        }
        match (cached.change, &cached.held, &cached.found) {
            (Change::Nothing, ..) | (_, None, Found::Absent) => {}
            (Change::Attributes, Some(held), _) => {
                let mut attributes = held.attributes.clone();
                attributes.set_expiry(held.expiry.map(Moment::nanos));
                batch.set_attributes(key, attributes);
            }
            (_, Some(held), _) => {
                let bytes = held.datum.as_ref().map(Datum::encode).unwrap_or_default();
                batch.put(key, &bytes, &PutOptions { attributes: Some(held.described()), ..PutOptions::default() })?;
            }
            (_, None, Found::There(_)) => batch.remove(key),
            // It was replaced and then removed, without a look at what the store has.
            (_, None, Found::Unknown) => match self.store.stat(key) {
                Ok(object) => {
                    batch.unchanged(key, &object);
                    batch.remove(key);
                }
                Err(Error::NotFound { .. }) => batch.absent(key),
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }

    /// Checks that values which were read together were all there at one moment: they are, if none has changed since.
    fn check_together(&self, used: &[(Vec<u8>, &Cached)]) -> Result<(), Error> {
        if used.len() < 2 {
            return Ok(());
        }
        for (key, cached) in used {
            let now = match self.store.stat(key) {
                Ok(object) => Found::There(Box::new(object)),
                Err(Error::NotFound { .. }) => Found::Absent,
                Err(error) => return Err(error),
            };
            if !cached.found.is(&now) {
                return Err(changed(key));
            }
        }
        Ok(())
    }
}

impl Found {
    /// Whether both are the same object, unchanged.
    fn is(&self, other: &Found) -> bool {
        match (self, other) {
            (Found::There(a), Found::There(b)) => (a.id, a.generation) == (b.id, b.generation),
            (Found::Absent, Found::Absent) => true,
            _ => false,
        }
    }
}

/// The error of a value that another process changed while commands used it.
fn changed(name: &[u8]) -> Error {
    let reason = "another process has changed it; read it again".to_owned();
    Error::Conflict { key: String::from_utf8_lossy(name).into_owned(), reason }
}

fn check_length(length: u64) -> Result<(), Problem> {
    match length > MAX_WORD_BYTES as u64 {
        true => {
            Err(format!("ERR the value has {length} bytes, but a reply has at most {MAX_WORD_BYTES}; use GETRANGE")
                .into())
        }
        false => Ok(()),
    }
}
