//! Extended attributes: an object's pairs, as `user.NAME`.

use std::ffi::OsStr;

use fuser::{Errno, INodeNo, ReplyXattr};
use terrace::files::Presence;

use super::{Answer, System, filed, said};

const PREFIX: &str = "user.";

impl System {
    /// An attribute's value.
    pub fn pair(&self, number: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        let name = named(name)?;
        let path = self.noted_path(number)?.ok_or(Errno::ENODATA)?;
        let value = filed(self.tree.files().pairs(&path))?.remove(name);
        value.map(String::into_bytes).ok_or(Errno::ENODATA)
    }

    /// All attributes' names, each with a zero behind it.
    pub fn pairs(&self, number: INodeNo) -> Answer<Vec<u8>> {
        let Some(path) = self.noted_path(number)? else { return Ok(Vec::new()) };
        let pairs = filed(self.tree.files().pairs(&path))?;
        Ok(pairs.into_keys().flat_map(|name| format!("{PREFIX}{name}\0").into_bytes()).collect())
    }

    /// Sets or removes an attribute.
    pub fn set_pair(&self, number: INodeNo, name: &OsStr, value: Option<&[u8]>, flags: i32) -> Answer<()> {
        let name = named(name)?;
        let path = self.noted_path(number)?.ok_or(Errno::EOPNOTSUPP)?;
        let value = value.map(std::str::from_utf8).transpose().map_err(|_| Errno::EOPNOTSUPP)?;
        let presence = match flags {
            _ if value.is_none() => Presence::There,
            libc::XATTR_CREATE => Presence::Absent,
            libc::XATTR_REPLACE => Presence::There,
            _ => Presence::Any,
        };
        filed(self.tree.files().set_pair(&path, name, value, presence))
    }

    /// The path of what may have attributes: views have none.
    fn noted_path(&self, number: INodeNo) -> Answer<Option<Vec<u8>>> {
        said(self.tree.path(number.0))
    }
}

/// The pair's name.
fn named(name: &OsStr) -> Answer<&str> {
    name.to_str().and_then(|name| name.strip_prefix(PREFIX)).filter(|name| !name.is_empty()).ok_or(Errno::EOPNOTSUPP)
}

/// Answers with bytes, or with their number where that is asked.
pub fn told(result: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}
