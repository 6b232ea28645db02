//! What is known about a file beside its bytes and its name.

use fuser::{Errno, FileAttr, FileHandle, INodeNo};
use terrace::files::{File, Setting, Stat};

use super::{Answer, System, said};
use crate::answer::attributes;
use crate::nodes::Nodes;
use crate::views;

impl System {
    /// The attributes of a number, which may be open.
    pub fn attributes(&self, number: INodeNo, handle: Option<FileHandle>) -> Answer<FileAttr> {
        if views::is(number.0) {
            return self.views.attributes(number.0);
        }
        self.stat(number, handle).map(|stat| attributes(number.0, &stat))
    }

    fn stat(&self, number: INodeNo, handle: Option<FileHandle>) -> Answer<Stat> {
        if let Some(file) = handle.and_then(|handle| self.open.get(handle.0)) {
            return said(file.stat());
        }
        let nodes = self.nodes.read();
        match nodes.path(number.0) {
            Some(path) => said(self.files.stat(&path)),
            None => said(self.opened(&nodes, number).ok_or(Errno::ESTALE)?.stat()),
        }
    }

    /// Changes attributes, and the length where one is given.
    pub fn set_attributes(
        &self,
        number: INodeNo,
        handle: Option<FileHandle>,
        size: Option<u64>,
        setting: &Setting,
    ) -> Answer<FileAttr> {
        if views::is(number.0) {
            return self.views.set_size(number.0, size);
        }
        self.set(number, handle, size, setting).map(|stat| attributes(number.0, &stat))
    }

    fn set(&self, number: INodeNo, handle: Option<FileHandle>, size: Option<u64>, setting: &Setting) -> Answer<Stat> {
        let nodes = self.nodes.read();
        let handle = handle.and_then(|handle| self.open.get(handle.0));
        let file = if handle.is_some() { None } else { self.opened(&nodes, number) };
        let path = || nodes.path(number.0).ok_or(Errno::ESTALE);
        let given = handle.as_deref().or(file.as_ref());
        if let Some(size) = size {
            match given {
                Some(file) => said(file.set_len(size))?,
                None => said(self.files.open(&path()?).and_then(|file| file.set_len(size)))?,
            }
        }
        let nothing = setting.mode.is_none()
            && setting.uid.is_none()
            && setting.gid.is_none()
            && setting.accessed.is_none()
            && setting.modified.is_none();
        said(match (given, nothing) {
            (Some(file), true) => file.stat(),
            (Some(file), false) => file.set(setting),
            (None, true) => self.files.stat(&path()?),
            (None, false) => self.files.set(&path()?, setting),
        })
    }

    /// The open file of a number.
    fn opened(&self, nodes: &Nodes, number: INodeNo) -> Option<File> {
        nodes.object(number.0).and_then(|object| self.files.opened(object))
    }
}
