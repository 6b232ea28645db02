//! Adds, lists and removes origins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use terrace_catalog::{Kind, NameListing, Object};
use terrace_format::key::{self, KeySpace};
use terrace_tier::{DirectoryOrigin, OriginAddress, OriginPlace};

use super::{OwnPlaces, Store};
use crate::config::{DEFAULT_MAX_AGE, OriginConfig, Time};
use crate::origins::{HEED_INTERVAL, LEFT_OUT_ATTRIBUTE, StoreMounts};
use crate::{Error, Result};

/// The number of objects that are read at a time.
const OBJECTS_PER_PAGE: usize = 1024;

/// An origin, and what the store has of it.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct OriginStatus {
    /// The key of the folder in which its files are shown.
    pub prefix: String,
    /// The directory or URL.
    pub url: String,
    /// Names are asked for again after this number of seconds.
    pub max_age: f64,
    /// The known files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of their bytes that the store has.
    pub cached: u64,
    /// The bytes that these take on tiers.
    pub stored: u64,
    /// Names at the origin that are no keys, or both a file's and a folder's, and are not shown.
    pub left_out: u64,
}

impl Store {
    /// Shows the files of a directory or service below a prefix, where nothing may be yet. Nothing is copied before it is read. The
    /// files are read-only. Without `max_age`, names are asked for again after a minute.
    ///
    /// # Errors
    /// [`Error::Config`] if the address or the options are not valid, if several nodes share the store, or if another origin's prefix is
    /// the same, above or below; [`Error::Conflict`] if objects are there; [`Error::Origin`] if the place cannot be listed.
    pub fn add_origin(
        &self,
        prefix: &str,
        url: &str,
        options: BTreeMap<String, String>,
        max_age: Option<Duration>,
    ) -> Result<()> {
        if self.is_shared() {
            let reason = "several nodes share this store, and origins are for stores of one machine";
            return Err(Error::Config(reason.into()));
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
        key::check(prefix.as_bytes())?;
        self.check_origin_keys(&prefix)?;
        let (url, inode) = self.check_origin(&prefix, url, &options)?;
        let max_age = Time(max_age.unwrap_or(DEFAULT_MAX_AGE));
        let mut added = None;
        self.edit_config(|config| {
            let number =
                config.origins.iter().map(|origin| origin.number).max().map_or(1, |last| last.saturating_add(1));
            let origin = OriginConfig { prefix: prefix.clone(), number, url, options, max_age, inode, leaving: false };
            // Before the configuration names it, so that it names none whose folder is not there.
            let mut with = config.clone();
            with.origins.push(origin.clone());
            crate::Config::parse(&with.to_toml(), "the changed configuration")?;
            self.engine.origins.make_root(&origin)?;
            config.origins.push(origin.clone());
            added = Some(origin);
            Ok(())
        })?;
        self.engine.planning.rules.renew();
        // Afterwards, all processes that have the store open know of it: see there.
        std::thread::sleep(HEED_INTERVAL);
        let Some(origin) = added else { return Ok(()) };
        // Wrong credentials and misspelt names are found now.
        match self.engine.origins.refresh_folder(origin.prefix.as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.forget_origin(&origin)?;
                Err(error)
            }
        }
    }

    /// Checks the place of an origin. Returns its address, and the inode of a directory.
    fn check_origin(
        &self,
        prefix: &str,
        url: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<(String, Option<u64>)> {
        let shown = hide_password(url);
        let wrong = |cause: std::io::Error| Error::Config(format!("origin {prefix:?}: {shown}: {cause}"));
        match OriginAddress::parse(url, options).map_err(wrong)? {
            OriginPlace::Directory(path) => {
                let path = std::path::absolute(&path).map_err(wrong)?;
                let own = OwnPlaces::of(self);
                own.check(&path)?;
                own.check_contents(&path)?;
                if StoreMounts::in_directory(&path).are_above(b"") {
                    return Err(Error::Config(format!(
                        "origin {prefix:?}: {url} is in a mount of a store; name another directory"
                    )));
                }
                let inode = DirectoryOrigin::new(&path, None).find_inode().map_err(wrong)?;
                let text = path.to_str().ok_or_else(|| {
                    Error::Config(format!(
                        "origin {prefix:?}: the path {} is not UTF-8; name it by a link",
                        path.display()
                    ))
                })?;
                // A path that looks like a URL would be taken for one.
                debug_assert!(Path::new(text).is_absolute());
                Ok((text.to_owned(), Some(inode)))
            }
            #[cfg(feature = "object")]
            OriginPlace::Service { name, options: told, root } => {
                let mut options = options.clone();
                options.extend(told);
                let service = terrace_tier::Service { name, options, root, timeout: Duration::from_secs(30) };
                match OwnPlaces::of(self).check_service(&service) {
                    // Readers of public buckets may read what is there, and may not ask for what is not.
                    Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::PermissionDenied => {}
                    checked => checked?,
                }
                Ok((url.to_owned(), None))
            }
            #[cfg(not(feature = "object"))]
            OriginPlace::Service { .. } => Ok((url.to_owned(), None)),
        }
    }

    /// Checks that keys at a prefix are paths. In a key space of flat keys, they are escaped.
    fn check_origin_keys(&self, prefix: &str) -> Result<()> {
        let folders = prefix.match_indices('/').map(|(at, _)| &prefix[..at]).chain([prefix]);
        for folder in folders {
            match self.key_space(folder.as_bytes()) {
                Ok(space) if space.rule() != terrace_format::key::KeyRule::Paths => {
                    let reason = "its names are flat keys, and those of an origin are paths; choose another prefix";
                    return Err(Error::Conflict { key: folder.to_owned(), reason: reason.into() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the origins. This reads the record of each object of theirs.
    pub fn origins(&self) -> Result<Vec<OriginStatus>> {
        self.engine.planning.rules.renew();
        let rules = self.engine.planning.rules.now();
        rules.origins.iter().map(|origin| self.measure_origin(origin)).collect()
    }

    /// Removes an origin: its names, and the bytes of its files that the store has. Nothing is changed at the origin itself. Returns what
    /// the store had of it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no origin has this prefix.
    pub fn remove_origin(&self, prefix: &str) -> Result<OriginStatus> {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        self.engine.planning.rules.renew();
        let rules = self.engine.planning.rules.now();
        let found = rules.origins.iter().find(|origin| origin.prefix == prefix);
        let origin = found.ok_or_else(|| {
            let prefixes: Vec<&str> = rules.origins.iter().map(|origin| origin.prefix.as_str()).collect();
            let there = if prefixes.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are {}", prefixes.join(", "))
            };
            Error::Config(format!("no origin has the prefix {prefix:?}; {there}"))
        })?;
        let status = self.measure_origin(origin)?;
        self.forget_origin(origin)?;
        Ok(status)
    }

    /// Returns whether a listing of this process has left out a folder that an origin refuses to show, or a whole origin that does not answer.
    pub fn has_left_out_folders(&self) -> bool {
        self.engine.origins.has_left_out()
    }

    fn forget_origin(&self, origin: &OriginConfig) -> Result<()> {
        let number = origin.number;
        // First, no process asks for names any more: what is removed must not come back.
        self.edit_config(|config| {
            config.origins.iter_mut().filter(|one| one.number == number).for_each(|one| one.leaving = true);
            Ok(())
        })?;
        self.engine.planning.rules.renew();
        terrace_system::fail::point("origin:leaving");
        self.engine.origins.remove_below(number, origin.prefix.as_bytes())?;
        self.edit_config(|config| {
            config.origins.retain(|one| one.number != number);
            Ok(())
        })?;
        self.engine.planning.rules.renew();
        self.engine.mover.start(true);
        Ok(())
    }

    fn measure_origin(&self, origin: &OriginConfig) -> Result<OriginStatus> {
        let mut status = OriginStatus {
            prefix: origin.prefix.clone(),
            url: origin.url.clone(),
            max_age: origin.max_age.0.as_secs_f64(),
            files: 0,
            bytes: 0,
            cached: 0,
            stored: 0,
            left_out: 0,
        };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.engine.catalog.list(origin.prefix.as_bytes(), after.as_deref(), OBJECTS_PER_PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(status) };
            after = Some(last.clone());
            for (key, object) in &page {
                self.measure_object(key, object, &mut status)?;
            }
        }
    }

    fn measure_object(&self, key: &[u8], object: &Object, status: &mut OriginStatus) -> Result<()> {
        if object.attributes.kind == Kind::Directory {
            let left_out = object.attributes.user.get(LEFT_OUT_ATTRIBUTE);
            status.left_out += left_out.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            return Ok(());
        }
        status.files += 1;
        status.bytes += object.length;
        // Nothing is here of most files.
        if object.extents_in_record.as_ref().is_some_and(|extents| extents.is_empty()) {
            return Ok(());
        }
        let Some((_, extents)) = self.engine.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
        for extent in extents {
            status.cached += u64::from(extent.length);
            status.stored += extent.replicas.iter().map(|replica| u64::from(replica.stored)).sum::<u64>();
        }
        Ok(())
    }

    /// Makes the catalog have the names that a page of a key space may list.
    pub(super) fn refresh_names(&self, space: &KeySpace, listing: &NameListing<'_>) -> Result<()> {
        let origins = &self.engine.origins;
        if !origins.heed() {
            return Ok(());
        }
        let folder_of = |name: &[u8]| name.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let below = &listing.prefix[..folder_of(listing.prefix)];
        let folder = [space.folder(), b"/", below].concat();
        let folder = folder.strip_suffix(b"/").unwrap_or(&folder);
        if listing.delimiter == b"/" {
            return origins.refresh_folder(folder);
        }
        let after = listing.after.map(|after| [space.folder(), b"/", after].concat());
        origins.refresh_below(folder, after.as_deref().filter(|after| key::below(after, folder)), listing.limit)
    }

    /// Starts the background thread once bytes of origins were stored: it makes room and sync marks.
    pub(super) fn tend_origins(&self) {
        if self.engine.origins.take_work() {
            self.engine.mover.start(true);
        }
    }
}

/// Returns a URL without the password in it.
fn hide_password(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (user, place) = rest.split_once('@')?;
        let (name, _) = user.split_once(':').filter(|_| !user.contains('/'))?;
        Some(format!("{scheme}://{name}:...@{place}"))
    });
    parts.unwrap_or_else(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::hide_password;

    #[test]
    fn only_passwords_are_hidden() {
        for (url, shown) in [
            ("http://me:secret@host/a@b", "http://me:...@host/a@b"),
            ("sftp://me@host/a:b", "sftp://me@host/a:b"),
            ("http://host:80/a@b", "http://host:80/a@b"),
            ("/a:b@c", "/a:b@c"),
        ] {
            assert_eq!(hide_password(url), shown);
        }
    }
}
