//! Attributes of files: everything but their bytes and names.

use terrace::files::{File, Setting, Stat};

use crate::error::{STALE_FILE, refused};
use crate::nodes::Nodes;
use crate::{Node, Open, Result, Tree, views};

impl Tree {
    /// Returns the attributes of a number; `open` is its open file, if any.
    pub fn node(&self, number: u64, open: Option<&Open>) -> Result<Node> {
        if views::is_view(number) {
            return self.views.node(number);
        }
        Ok(Node { number, stat: self.stat(number, open)? })
    }

    fn stat(&self, number: u64, open: Option<&Open>) -> Result<Stat> {
        if let Some(stat) = open.and_then(Open::stat) {
            return stat;
        }
        let nodes = self.nodes.read();
        match nodes.path(number) {
            Some(path) => Ok(self.files.stat(&path)?),
            None => Ok(self.opened(&nodes, number).ok_or(STALE_FILE)?.stat()?),
        }
    }

    /// Changes attributes, and the length if one is given. Truncating a view has no effect, because programs truncate before they write;
    /// extending a view is an error.
    pub fn set(&self, number: u64, open: Option<&Open>, size: Option<u64>, setting: &Setting) -> Result<Node> {
        if views::is_view(number) {
            let node = self.views.node(number)?;
            return if size.is_some_and(|size| size > node.stat.length) { refused(libc::EFBIG) } else { Ok(node) };
        }
        let nodes = self.nodes.read();
        let file = if open.is_some() { None } else { self.opened(&nodes, number) };
        let file = file.map(|file| Open::file(number, file));
        let path = || nodes.path_of(number);
        let given = open.or(file.as_ref());
        if let Some(size) = size {
            match given.and_then(Open::as_file) {
                Some(file) => file.set_len(size)?,
                None => self.files.open(&path()?)?.set_len(size)?,
            }
        }
        let nothing = setting.mode.is_none()
            && setting.uid.is_none()
            && setting.gid.is_none()
            && setting.accessed.is_none()
            && setting.modified.is_none();
        let stat = match (given, nothing) {
            (Some(open), true) => open.stat().unwrap_or(Err(STALE_FILE)),
            (Some(open), false) => open.set(setting),
            (None, true) => Ok(self.files.stat(&path()?)?),
            (None, false) => Ok(self.files.set(&path()?, setting)?),
        }?;
        Ok(Node { number, stat })
    }

    /// Returns the open file of a number.
    fn opened(&self, nodes: &Nodes, number: u64) -> Option<File> {
        nodes.object(number).and_then(|object| self.files.opened(object))
    }

    /// Returns the path of a file or directory. Views have none.
    pub fn path(&self, number: u64) -> Result<Option<Vec<u8>>> {
        match views::is_view(number) {
            true => Ok(None),
            false => self.nodes.read().path_of(number).map(Some),
        }
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, number: u64) -> Result<Vec<u8>> {
        let nodes = self.nodes.read();
        Ok(self.files.read_link(&nodes.path_of(number)?)?)
    }
}
