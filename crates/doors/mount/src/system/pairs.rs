//! Extended attributes: an object's user pairs, as `user.NAME`.

use std::ffi::OsStr;

use fuser::{Errno, INodeNo, ReplyXattr};
use terrace::files::Presence;

use super::{Answer, System, map_file_errno, map_tree_errno};

const USER_PREFIX: &str = "user.";

impl System {
    /// Returns an attribute's value.
    pub fn pair(&self, number: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        let name = strip_user_prefix(name)?;
        let path = self.path_with_attributes(number)?.ok_or(Errno::ENODATA)?;
        map_file_errno(self.tree.files().pair(&path, name)).map(String::into_bytes)
    }

    /// Returns the names of all attributes, each followed by a zero byte.
    pub fn pairs(&self, number: INodeNo) -> Answer<Vec<u8>> {
        let Some(path) = self.path_with_attributes(number)? else { return Ok(Vec::new()) };
        let pairs = map_file_errno(self.tree.files().pairs(&path))?;
        Ok(pairs.into_keys().flat_map(|name| format!("{USER_PREFIX}{name}\0").into_bytes()).collect())
    }

    /// Sets or removes an attribute.
    pub fn set_pair(&self, number: INodeNo, name: &OsStr, value: Option<&[u8]>, flags: i32) -> Answer<()> {
        let name = strip_user_prefix(name)?;
        let path = self.path_with_attributes(number)?.ok_or(Errno::EOPNOTSUPP)?;
        let value = value.map(std::str::from_utf8).transpose().map_err(|_| Errno::EOPNOTSUPP)?;
        let presence = match flags {
            _ if value.is_none() => Presence::There,
            libc::XATTR_CREATE => Presence::Absent,
            libc::XATTR_REPLACE => Presence::There,
            _ => Presence::Any,
        };
        map_file_errno(self.tree.files().set_pair(&path, name, value, presence))
    }

    /// Returns the path of a file that may have attributes; views have none.
    fn path_with_attributes(&self, number: INodeNo) -> Answer<Option<Vec<u8>>> {
        map_tree_errno(self.tree.path(number.0))
    }
}

/// Returns the name of the pair that an attribute stands for.
fn strip_user_prefix(name: &OsStr) -> Answer<&str> {
    name.to_str()
        .and_then(|name| name.strip_prefix(USER_PREFIX))
        .filter(|name| !name.is_empty())
        .ok_or(Errno::EOPNOTSUPP)
}

/// Replies with the bytes; if `size` is 0, with their length.
pub fn reply_xattr(result: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}
