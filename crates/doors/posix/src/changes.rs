//! Converts changes of attributes from C's calls.

use std::collections::BTreeMap;

use terrace::files::{Presence, Setting};

/// The beginning of the names of attributes that stand for an object's user pairs.
const USER_PREFIX: &str = "user.";

/// The value of an owner that stays as it is.
const UNCHANGED_ID: u32 = u32::MAX;

/// Converts the arguments of `chown`.
pub fn to_owner(user: u32, group: u32) -> Setting {
    let given = |id| (id != UNCHANGED_ID).then_some(id);
    Setting { uid: given(user), gid: given(group), ..Setting::default() }
}

/// Returns the name of the pair that an extended attribute stands for, if it does.
pub fn to_pair_name(attribute: &[u8]) -> Option<&str> {
    std::str::from_utf8(attribute).ok()?.strip_prefix(USER_PREFIX).filter(|name| !name.is_empty())
}

/// Returns the names of the extended attributes that stand for these pairs, each with a zero byte, as `listxattr` returns them.
pub fn to_attribute_names(pairs: BTreeMap<String, String>) -> Vec<u8> {
    pairs.into_keys().flat_map(|name| format!("{USER_PREFIX}{name}\0").into_bytes()).collect()
}

/// Converts the flags of `setxattr`.
pub fn to_presence(flags: i32) -> Presence {
    match flags {
        libc::XATTR_CREATE => Presence::Absent,
        libc::XATTR_REPLACE => Presence::There,
        _ => Presence::Any,
    }
}
