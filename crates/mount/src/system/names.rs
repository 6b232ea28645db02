//! Names: looked up, made, removed, changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, FileAttr, INodeNo, RenameFlags};
use terrace::Kind;
use terrace::files::{File, FileResult, Stat};

use super::{Answer, System, said};
use crate::answer::attributes;
use crate::nodes::Nodes;
use crate::views;

impl System {
    /// What the kernel asks for by name.
    pub fn look_up(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        if views::is(parent.0) || views::is_folder(parent.0, name.as_bytes()) {
            return self.views.lookup(parent.0, name.as_bytes());
        }
        // The kernel lets nobody change this name meanwhile.
        let stat = {
            let nodes = self.nodes.read();
            let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
            said(self.files.stat(&path))?
        };
        Ok(found(&mut self.nodes.write(), parent, name, &stat))
    }

    /// Makes something under a name.
    pub fn make(&self, parent: INodeNo, name: &OsStr, make: impl FnOnce(&[u8]) -> FileResult<()>) -> Answer<FileAttr> {
        let mut nodes = self.nodes.write();
        let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
        said(make(&path))?;
        let stat = said(self.files.stat(&path))?;
        Ok(found(&mut nodes, parent, name, &stat))
    }

    /// Makes a file, and opens it; its handle.
    pub fn make_open(
        &self,
        parent: INodeNo,
        name: &OsStr,
        create: impl FnOnce(&[u8]) -> FileResult<File>,
    ) -> Answer<(FileAttr, u64)> {
        let mut opened = None;
        let made = self.make(parent, name, |path| {
            opened = Some(create(path)?);
            Ok(())
        })?;
        Ok((made, self.open.keep(opened.ok_or(Errno::EIO)?)))
    }

    /// Takes a name away.
    pub fn take(&self, parent: INodeNo, name: &OsStr, remove: impl FnOnce(&[u8]) -> FileResult<()>) -> Answer<()> {
        let mut nodes = self.nodes.write();
        let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
        said(remove(&path))?;
        nodes.removed(parent.0, name.as_bytes());
        Ok(())
    }

    /// Changes a name.
    pub fn change(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return Err(Errno::EINVAL);
        }
        if views::is_folder(new_parent.0, new_name.as_bytes()) {
            return Err(Errno::EPERM);
        }
        let mut nodes = self.nodes.write();
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        let path = |(parent, name)| nodes.child(parent, name).ok_or(Errno::ESTALE);
        said(self.files.rename(&path(from)?, &path(to)?, flags.is_empty()))?;
        nodes.renamed(from, to);
        Ok(())
    }
}

/// Notes that the kernel is told of a name.
fn found(nodes: &mut Nodes, parent: INodeNo, name: &OsStr, stat: &Stat) -> FileAttr {
    let number = nodes.found(parent.0, name.as_bytes(), stat.id, stat.kind == Kind::Directory);
    attributes(number, stat)
}
