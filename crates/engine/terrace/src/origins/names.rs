//! Asks origins for names, and keeps the answers in the catalog: each name once in `max_age`, however many processes ask.
//!
//! An origin that does not answer keeps the names that it had.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_catalog::{Kind, Object};
use terrace_format::key;
use terrace_system::clock::unix_nanos;
use terrace_tier::OriginEntry;

use super::attribute::{Pinned, listed_at};
use super::store_mounts::StoreMounts;
use super::{Origins, is_refused, path_in, unanswered};
use crate::config::OriginConfig;
use crate::{Error, Result};

/// The number of keys whose times are remembered.
const MAX_REMEMBERED_KEYS: usize = 1 << 16;
/// A folder whose listing was begun with an earlier page is not listed again for this time.
const PAGING_TIME: Duration = Duration::from_secs(60);
/// The number of keys that a walk reads at a time.
const KEYS_PER_PAGE: usize = 256;

/// When this process has asked for keys.
#[derive(Default)]
pub struct Checked(HashMap<Vec<u8>, Option<Instant>>);

impl Checked {
    fn note(&mut self, key: &[u8], at: Option<Instant>) {
        if self.0.len() >= MAX_REMEMBERED_KEYS {
            self.0.clear();
        }
        self.0.insert(key.to_vec(), at);
    }
}

impl Origins {
    /// Makes the catalog say what the origin of a key has there, unless it was asked a short time ago.
    ///
    /// # Errors
    /// [`crate::Error::Origin`] if the origin does not answer, and the key is not known.
    pub fn refresh(&self, key: &[u8]) -> Result<()> {
        let Some(origin) = self.of_key(key).filter(|origin| !origin.leaving) else { return Ok(()) };
        let Some(path) = path_in(&origin, key) else { return Ok(()) };
        if self.is_fresh(&origin, key)? {
            return Ok(());
        }
        match self.stat(&origin, path) {
            Ok(entry) => {
                self.apply(&origin, key, entry)?;
                self.checked.lock().note(key, Some(Instant::now()));
                Ok(())
            }
            Err(cause) => match self.catalog.object(key)? {
                Some(_) => Ok(()),
                None => Err(unanswered(&origin, "looking for", key, cause)),
            },
        }
    }

    /// Makes the catalog list what the origin has directly in a folder, unless it was asked a short time ago.
    ///
    /// # Errors
    /// [`crate::Error::Origin`] if the origin does not answer, and the folder was never listed.
    pub fn refresh_folder(&self, folder: &[u8]) -> Result<()> {
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        let Some(origin) = self.of_key(folder).filter(|origin| !origin.leaving) else { return Ok(()) };
        if self.catalog.object(folder)?.is_none() {
            self.refresh(folder)?;
        }
        self.list(&origin, folder, Duration::ZERO).map(drop)
    }

    /// Makes the catalog list the first `limit` files at or below a prefix that come after a key.
    ///
    /// # Errors
    /// As [`Origins::refresh_folder`].
    pub fn refresh_below(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<()> {
        if !self.is_any() {
            return Ok(());
        }
        let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
        let rules = self.planning.rules.now();
        let is_concerned = rules.origins.iter().any(|origin| {
            let own = origin.prefix.as_bytes();
            key::below(own, prefix) || key::below(prefix, own)
        });
        if !is_concerned {
            return Ok(());
        }
        if !prefix.is_empty() {
            self.refresh(prefix)?;
        }
        let (mut last, mut found) = (after.map(<[u8]>::to_vec), 0);
        // The folders above the first key were listed for an earlier page, or are listed now.
        let after = after.unwrap_or_default();
        for (at, _) in after.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            if let Some(origin) = self.of_key(&after[..at]).filter(|origin| !origin.leaving) {
                self.list(&origin, &after[..at], PAGING_TIME)?;
            }
        }
        loop {
            let page = self.catalog.list(prefix, last.as_deref(), KEYS_PER_PAGE)?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, object) in page {
                let is_listed = object.attributes.kind == Kind::Directory
                    && match rules.origin_of(&key).filter(|origin| !origin.leaving) {
                        // The folders of others are shown.
                        Some(origin) if !key::below(prefix, origin.prefix.as_bytes()) => {
                            let listed = self.list(origin, &key, Duration::ZERO);
                            listed.unwrap_or_else(|error| self.leave_out(&error))
                        }
                        Some(origin) => match self.list(origin, &key, Duration::ZERO) {
                            Err(error) if is_refused(&error) && key != prefix => self.leave_out(&error),
                            listed => listed?,
                        },
                        None => false,
                    };
                found += usize::from(object.attributes.kind != Kind::Directory);
                last = Some(key);
                if found > limit {
                    return Ok(());
                }
                if is_listed {
                    // What follows on this page may have changed.
                    break;
                }
            }
        }
    }

    /// Notes that a listing goes on without a folder. Returns false: it was not listed.
    fn leave_out(&self, error: &Error) -> bool {
        tracing::warn!(%error, "a folder is left out");
        self.has_left_out.store(true, Ordering::Relaxed); // see the field
        false
    }

    /// Returns whether a listing of this process has left out a folder.
    pub fn has_left_out(&self) -> bool {
        self.has_left_out.load(Ordering::Relaxed) // see the field
    }

    fn stat(&self, origin: &OriginConfig, path: &[u8]) -> io::Result<Option<OriginEntry>> {
        match StoreMounts::find(origin).are_above(path) {
            true => Ok(None),
            false => self.ask(origin, |files| files.stat(path)),
        }
    }

    /// Makes the catalog show what has taken the place of a file, for the next one who opens it, in whatever process.
    pub(super) fn refresh_changed(&self, origin: &OriginConfig, key: &[u8]) {
        self.checked.lock().note(key, None);
        let Some(path) = path_in(origin, key) else { return };
        let asked = self.stat(origin, path).map_err(|cause| unanswered(origin, "looking for", key, cause));
        // The reader gets an error in any case. Until the origin answers, the next reader gets it, too.
        if let Err(error) = asked.and_then(|entry| self.apply(origin, key, entry)) {
            tracing::debug!(key = %key::show(key), %error, "a changed file is not looked at");
        }
    }

    fn is_fresh(&self, origin: &OriginConfig, key: &[u8]) -> Result<bool> {
        // What was read of it is kept only until it was looked at once more.
        if self.catalog.object(key)?.is_some_and(|object| Pinned::of(&object).is_some_and(|pinned| pinned.is_recent()))
        {
            return Ok(false);
        }
        match self.checked.lock().0.get(key) {
            Some(Some(at)) if at.elapsed() < origin.max_age.0 => return Ok(true),
            Some(None) => return Ok(false),
            _ => {}
        }
        let above = key.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |at| &key[..at]);
        if above.is_empty() {
            return Ok(false);
        }
        Ok(self.catalog.object(above)?.is_some_and(|folder| is_listed_in_time(&folder, origin.max_age.0)))
    }

    /// Lists a folder, if it was listed neither in the origin's `max_age` nor in `least_age`. Returns whether it was listed.
    fn list(&self, origin: &OriginConfig, folder: &[u8], least_age: Duration) -> Result<bool> {
        let age = origin.max_age.0.max(least_age);
        let is_due = || -> Result<Option<Object>> {
            let object = self.catalog.object(folder)?.filter(|object| object.attributes.kind == Kind::Directory);
            Ok(object.filter(|object| Pinned::of(object).is_some() && !is_listed_in_time(object, age)))
        };
        if is_due()?.is_none() {
            return Ok(false);
        }
        // One process lists it for all.
        let _lock = self.fetch_locks.wait_for_name(folder);
        let Some(object) = is_due()? else { return Ok(false) };
        let path = path_in(origin, folder).unwrap_or_default();
        let mounts = StoreMounts::find(origin);
        let (began, mut entries) = (unix_nanos(), Vec::new());
        let listed = self.ask(origin, |files| match files.can_list() {
            _ if mounts.are_above(path) => Err(io::ErrorKind::NotFound.into()),
            true => files.list(path, &mut |entry| entries.push(entry)),
            false => Err(io::ErrorKind::Unsupported.into()),
        });
        entries.retain(|entry| !mounts.are_above(&[path, b"/", &entry.name].concat()));
        match listed {
            Ok(()) => self.apply_listing(origin, folder, entries, began)?,
            Err(e) if e.kind() == io::ErrorKind::Unsupported => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_empty() => self.apply(origin, folder, None)?,
            Err(error) if listed_at(&object).is_some() => {
                tracing::warn!(folder = %key::show(folder), origin = origin.url, %error, "the origin does not answer; names are shown as they were when it was last asked");
                return Ok(false);
            }
            Err(cause) => return Err(unanswered(origin, "listing", folder, cause)),
        }
        Ok(true)
    }
}

fn is_listed_in_time(folder: &Object, max_age: Duration) -> bool {
    let Some(age) = listed_at(folder).and_then(|at| u64::try_from(unix_nanos().saturating_sub(at)).ok()) else {
        return false;
    };
    Duration::from_nanos(age) < max_age
}
