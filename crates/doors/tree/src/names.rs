//! Operations on names: lookup, creation, removal and renaming.

use terrace::Kind;
use terrace::files::{File, FileResult, Owner, Special, Stat};

use crate::error::refused;
use crate::nodes::Nodes;
use crate::{Node, Open, Result, Tree, views};

impl Tree {
    /// Looks up a name in a directory. Each lookup must be balanced by one forget.
    pub fn find(&self, parent: u64, name: &[u8]) -> Result<Node> {
        if views::is_view(parent) || views::is_folder(parent, name) {
            return self.views.find(parent, name);
        }
        loop {
            let (stat, changes) = {
                let nodes = self.nodes.read();
                (self.files.stat(&nodes.child_of(parent, name)?)?, nodes.changes())
            };
            let mut nodes = self.nodes.write();
            if nodes.changes() == changes {
                return found(&mut nodes, parent, name, stat);
            }
        }
    }

    /// Returns the directory that holds a number; the root is its own parent. Counts as a lookup.
    pub fn above(&self, number: u64) -> Result<Node> {
        if views::is_view(number) {
            return self.node(self.views.above(number)?, None);
        }
        let mut nodes = self.nodes.write();
        let above = nodes.place(number)?.0;
        let stat = self.files.stat(&nodes.path_of(above)?)?;
        nodes.again(above);
        Ok(Node { number: above, stat })
    }

    /// Counts one more lookup of a known number, which then needs one more forget.
    pub fn hold(&self, number: u64) {
        self.nodes.write().again(number);
    }

    /// Takes `times` lookups from a node that the caller no longer uses.
    pub fn forget(&self, number: u64, times: u64) {
        self.nodes.write().forget(number, times);
    }

    /// Creates a file and opens it.
    pub fn create(&self, parent: u64, name: &[u8], mode: u32, by: Owner, exclusive: bool) -> Result<(Node, Open)> {
        let mut opened: Option<File> = None;
        let node = self.make(parent, name, |path| {
            opened = Some(self.files.create(path, mode, by, exclusive)?);
            Ok(())
        })?;
        let Some(file) = opened else { return refused(libc::EIO) };
        let open = Open::file(node.number, file);
        Ok((node, open))
    }

    /// Creates a directory.
    pub fn make_directory(&self, parent: u64, name: &[u8], mode: u32, by: Owner) -> Result<Node> {
        self.make(parent, name, |path| self.files.make_directory(path, mode, by))
    }

    /// Creates a pipe, a socket or a device.
    pub fn make_special(&self, parent: u64, name: &[u8], special: Special, mode: u32, by: Owner) -> Result<Node> {
        self.make(parent, name, |path| self.files.make_special(path, special, mode, by))
    }

    /// Creates a symbolic link.
    pub fn make_link(&self, parent: u64, name: &[u8], to: &[u8], by: Owner) -> Result<Node> {
        self.make(parent, name, |path| self.files.make_link(path, to, by))
    }

    fn make(&self, parent: u64, name: &[u8], make: impl FnOnce(&[u8]) -> FileResult<()>) -> Result<Node> {
        writable(parent, name)?;
        let mut nodes = self.nodes.write();
        let path = nodes.child_of(parent, name)?;
        make(&path)?;
        let stat = self.files.stat(&path)?;
        found(&mut nodes, parent, name, stat)
    }

    /// Removes a file or a link, whose content lives as long as it is open.
    pub fn remove(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.take(parent, name, |path| self.files.remove(path))
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.take(parent, name, |path| self.files.remove_directory(path))
    }

    fn take(&self, parent: u64, name: &[u8], remove: impl FnOnce(&[u8]) -> FileResult<()>) -> Result<()> {
        writable(parent, name)?;
        let mut nodes = self.nodes.write();
        remove(&nodes.child_of(parent, name)?)?;
        nodes.removed(parent, name);
        Ok(())
    }

    /// Removes a file, a link or an empty directory under its present name.
    pub fn remove_number(&self, number: u64) -> Result<()> {
        if views::is_view(number) {
            return refused(libc::EPERM);
        }
        let mut nodes = self.nodes.write();
        let ((parent, name), path) = (nodes.place(number)?, nodes.path_of(number)?);
        match self.files.stat(&path)?.kind {
            Kind::Directory => self.files.remove_directory(&path)?,
            _ => self.files.remove(&path)?,
        }
        nodes.removed(parent, &name);
        Ok(())
    }

    /// Renames a number within its directory; fails if the name exists.
    pub fn rename_number(&self, number: u64, name: &[u8]) -> Result<()> {
        if views::is_view(number) {
            return refused(libc::EPERM);
        }
        let mut nodes = self.nodes.write();
        let (parent, old) = nodes.place(number)?;
        writable(parent, name)?;
        self.files.rename(&nodes.path_of(number)?, &nodes.child_of(parent, name)?, false)?;
        nodes.renamed((parent, &old), (parent, name));
        Ok(())
    }

    /// Renames an entry. With `replace`, it replaces an existing entry of the new name.
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), replace: bool) -> Result<()> {
        writable(from.0, from.1)?;
        writable(to.0, to.1)?;
        let mut nodes = self.nodes.write();
        let (old, new) = (nodes.child_of(from.0, from.1)?, nodes.child_of(to.0, to.1)?);
        self.files.rename(&old, &new, replace)?;
        nodes.renamed(from, to);
        Ok(())
    }

    /// Returns a number's directory and its name there, which is empty for the root.
    pub fn place(&self, number: u64) -> Result<(u64, Vec<u8>)> {
        match views::is_view(number) {
            true => Ok((self.views.above(number)?, self.views.name(number)?)),
            false => self.nodes.read().place(number),
        }
    }
}

/// Rejects changes of views' names, which belong to declarations.
fn writable(parent: u64, name: &[u8]) -> Result<()> {
    match views::is_view(parent) || views::is_folder(parent, name) {
        true => refused(libc::EPERM),
        false => Ok(()),
    }
}

/// Counts a lookup of a name.
fn found(nodes: &mut Nodes, parent: u64, name: &[u8], stat: Stat) -> Result<Node> {
    let number = nodes.found(parent, name, stat.id, stat.kind == Kind::Directory)?;
    Ok(Node { number, stat })
}
