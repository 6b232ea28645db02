//! The configuration of a store that several nodes share, as their log has it.

use terrace_catalog::{Attributes, Catalog, Change, Edit, Expect, Object};

use super::Config;
use crate::Result;

/// The object that holds the store's configuration.
const CONFIG_KEY: &[u8] = b".terrace/cluster/config";
/// Its attribute with the text.
const CONFIG_ATTRIBUTE: &str = "toml";
/// A configuration in the log.
pub struct SharedConfig {
    /// Its version.
    pub generation: u64,
    object: Object,
}

impl SharedConfig {
    /// Reads the newest one. None if the log has none.
    pub fn read(catalog: &Catalog) -> Result<Option<SharedConfig>> {
        let object = catalog.object(CONFIG_KEY)?;
        Ok(object.map(|object| SharedConfig { generation: object.generation, object }))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.object.attributes.user.get(CONFIG_ATTRIBUTE).map_or("", String::as_str)
    }

    /// The parsed text.
    ///
    /// # Errors
    /// [`crate::Error::Config`] if another version of Terrace has written it.
    pub fn parse(&self) -> Result<Config> {
        Config::parse(self.text(), "the configuration in the shared log")
    }

    /// Replaces it, together with other edits, unless it was changed since it was read.
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] then, or if another expectation does not hold; [`crate::Error::Config`] if the new one is not valid.
    pub fn replace(mut self, catalog: &Catalog, config: &Config, more: Change) -> Result<()> {
        let text = config.to_toml();
        Config::parse(&text, "the changed configuration")?;
        self.object.attributes.user.insert(CONFIG_ATTRIBUTE.to_owned(), text);
        let Change { mut expect, mut edits } = more;
        expect.insert(0, Expect::Generation(CONFIG_KEY.to_vec(), self.generation));
        edits.insert(0, Edit::SetAttributes { key: CONFIG_KEY.to_vec(), attributes: self.object.attributes });
        catalog.commit(Change { expect, edits })?;
        Ok(())
    }
}

/// Puts the first configuration into the log, for the nodes that join later.
pub fn publish(catalog: &Catalog, config: &Config) -> Result<()> {
    let user = [(CONFIG_ATTRIBUTE.to_owned(), config.to_toml())].into();
    let attributes = Attributes { user, ..Attributes::default() };
    let object = catalog.next_id()?;
    let edit = Edit::Put {
        key: CONFIG_KEY.to_vec(),
        object,
        length: 0,
        want: 1,
        attributes,
        staged: false,
        extents: Vec::new(),
    };
    catalog.commit(Change { expect: vec![Expect::Absent(CONFIG_KEY.to_vec())], edits: vec![edit] })?;
    Ok(())
}
