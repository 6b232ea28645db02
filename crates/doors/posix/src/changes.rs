//! Converts changes of attributes from C's calls.

use terrace::files::Setting;

/// The value of an owner that stays as it is.
const UNCHANGED_ID: u32 = u32::MAX;

/// Converts the arguments of `chown`.
pub fn to_owner(user: u32, group: u32) -> Setting {
    let given = |id| (id != UNCHANGED_ID).then_some(id);
    Setting { uid: given(user), gid: given(group), ..Setting::default() }
}
