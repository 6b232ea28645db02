//! Names in key spaces, for doors with flat keys such as those of S3 and Redis.

use terrace_catalog::{Attributes, Change, Child, Edit, Expect, Kind, NameListing, NamePage, Object};
use terrace_format::key::{self, KeyRule, KeySpace};

use super::Store;
use crate::mover::expiry::now;
use crate::{Error, Result};

/// The attribute of a key space's folder that holds its rule. Without it, names are paths.
const KEY_RULE_ATTRIBUTE: &str = "terrace.keys";
/// Folders that are looked up at once.
const FOLDERS_PER_PAGE: usize = 1024;
/// Its value for [`KeyRule::Flat`].
const FLAT_RULE_NAME: &str = "flat";

impl Store {
    /// Creates an empty folder whose names follow `rule`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something is at or below the folder already, or a file is above it. [`Error::BadKey`] if no key space
    /// can be there.
    ///
    /// ```
    /// use terrace::catalog::NameListing;
    /// use terrace::key::KeyRule;
    /// # use terrace::{Config, PutOptions, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
    /// # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
    /// let bucket = store.make_key_space(b"photos", KeyRule::Flat)?;
    /// for name in [&b"2023/a"[..], b"2024", b"2024/a", b"2024/b", b"2024//../b"] {
    ///     store.put_bytes(&bucket.key(name)?, b"some bytes", &PutOptions::default())?;
    /// }
    /// let listing = NameListing { delimiter: b"/", limit: 2, ..NameListing::default() };
    /// let page = store.list_names(&bucket, &listing)?;
    /// assert_eq!(page.common_prefixes, [b"2023/"]);
    /// assert_eq!(page.names[0].0, b"2024");
    /// let rest = store.list_names(&bucket, &NameListing { after: page.next.as_deref(), ..listing })?;
    /// assert_eq!(rest.common_prefixes, [b"2024/"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn make_key_space(&self, folder: &[u8], rule: KeyRule) -> Result<KeySpace> {
        let space = KeySpace::new(folder, rule)?;
        let mut attributes = Attributes { kind: Kind::Directory, mode: 0o755, ..Attributes::now() };
        if rule == KeyRule::Flat {
            attributes.user.insert(KEY_RULE_ATTRIBUTE.to_owned(), FLAT_RULE_NAME.to_owned());
        }
        let mut batch = self.batch();
        batch.make(folder, 0, attributes)?;
        batch.commit()?;
        Ok(space)
    }

    /// Returns the key space in a folder. A folder without a rule is a key space of paths.
    ///
    /// # Errors
    /// [`Error::NotFound`] if nothing is at or below the folder, [`Error::Conflict`] if a file is there.
    pub fn key_space(&self, folder: &[u8]) -> Result<KeySpace> {
        let paths = KeySpace::new(folder, KeyRule::Paths)?;
        match self.engine.catalog.object(folder)? {
            Some(object) if object.attributes.kind != Kind::Directory => Err(Error::Conflict {
                key: terrace_format::key::show(folder),
                reason: "it is a file, and a key space needs a folder; name another one".into(),
            }),
            Some(object) => match object.attributes.user.get(KEY_RULE_ATTRIBUTE).map(String::as_str) {
                None => Ok(paths),
                Some(FLAT_RULE_NAME) => Ok(KeySpace::new(folder, KeyRule::Flat)?),
                Some(rule) => Err(Error::Conflict {
                    key: terrace_format::key::show(folder),
                    reason: format!("its names follow the rule {rule:?} of a newer version; use that version"),
                }),
            },
            None if self.engine.catalog.holds_any(folder)? => Ok(paths),
            None => Err(Error::not_found(folder)),
        }
    }

    /// The folders at the top of the store in which key spaces are, in order of names. The store's own folder is none of them.
    pub fn top_key_spaces(&self) -> Result<Vec<Child>> {
        self.catch_up()?;
        let (mut folders, mut next) = (Vec::new(), Some(Vec::new()));
        while let Some(from) = next {
            let mut children;
            (children, next) = self.engine.catalog.children(b"", &from, FOLDERS_PER_PAGE)?;
            children.retain(|child| {
                let is_folder = child.object.as_ref().is_none_or(|object| object.attributes.kind == Kind::Directory);
                is_folder
                    && !key::below(&child.name, key::RESERVED_FOLDER)
                    && KeySpace::new(&child.name, KeyRule::Paths).is_ok()
            });
            folders.append(&mut children);
        }
        Ok(folders)
    }

    /// Removes a key space, which must be empty.
    ///
    /// # Errors
    /// [`Error::Conflict`] if anything is below its folder, expired or not, or if the folder was replaced meanwhile.
    pub fn remove_key_space(&self, space: &KeySpace) -> Result<()> {
        let folder = space.folder();
        self.check_changeable(folder)?;
        if self.key_space(folder)? != *space {
            return Err(Error::not_found(folder));
        }
        let object = self.stat(folder)?;
        let expect = vec![Expect::Names(folder.to_vec(), object.id), Expect::Free(folder.to_vec())];
        self.engine.catalog.commit(Change { expect, edits: vec![Edit::Remove { key: folder.to_vec() }] })?;
        Ok(())
    }

    /// Returns a page of the names in a key space, in byte order. Directories, symbolic links and expired objects are not
    /// listed. Names below a common prefix are skipped without being read.
    pub fn list_names(&self, space: &KeySpace, listing: &NameListing<'_>) -> Result<NamePage> {
        self.catch_up()?;
        self.refresh_names(space, listing)?;
        Ok(self.engine.catalog.list_names(space, listing, now())?)
    }

    /// Returns the object with a name.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, if it is not a file, or if it has expired.
    pub fn stat_name(&self, space: &KeySpace, name: &[u8]) -> Result<Object> {
        let key = space.key(name)?;
        self.refresh(&key)?;
        let object = self.engine.catalog.object(&key)?;
        let is_listed = |object: &Object| object.attributes.kind == Kind::File && !object.attributes.is_expired(now());
        object.filter(is_listed).ok_or_else(|| Error::not_found(name))
    }

    /// Removes at most `limit` expired objects and returns their number. The background thread does so, too; this is for a
    /// process that cannot wait for it.
    pub fn remove_expired(&self, limit: usize) -> Result<usize> {
        let removed = self.engine.mover.remove_expired(limit)?;
        self.engine.names.try_update_all();
        Ok(removed)
    }
}
