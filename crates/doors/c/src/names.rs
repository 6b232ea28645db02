//! Lists, describes and renames objects.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::failure::guard;
use crate::store::{Store, find_store};
use crate::{Failure, Status};
use terrace_foreign::{string, write_out};

/// Objects that are read from the catalog at a time.
const OBJECTS_PER_PAGE: usize = 256;

/// The kind of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    File = 0,
    /// A directory that was made, also if nothing is in it.
    Directory = 1,
    /// A symbolic link, whose bytes are the path that it points to.
    Symlink = 2,
}

/// A description of an object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    /// The object's number. An object keeps it when it is renamed; one that replaces it has another.
    pub object: u64,
    /// The commit that changed the object last.
    pub generation: u64,
    /// The length in bytes.
    pub length: u64,
    /// The time of modification, in nanoseconds since 1970.
    pub modified: i64,
    /// The permission bits.
    pub mode: u32,
    /// The kind.
    pub kind: Kind,
}

impl Info {
    fn of(object: &engine::Object) -> Info {
        Info {
            object: object.id,
            generation: object.generation,
            length: object.length,
            modified: object.attributes.mtime,
            mode: object.attributes.mode,
            kind: match object.attributes.kind {
                engine::Kind::File => Kind::File,
                engine::Kind::Directory => Kind::Directory,
                engine::Kind::Symlink => Kind::Symlink,
            },
        }
    }
}

/// Gets an object's key and description, with the context that the caller of `terrace_list` passed. Both are valid during the call.
/// Anything but 0 ends the listing.
pub type Visit = Option<unsafe extern "C" fn(context: *mut c_void, key: *const c_char, info: *const Info) -> c_int>;

/// Describes an object.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stat(store: *const Store, key: *const c_char, info: *mut Info) -> Status {
    guard(|| {
        write_out(info, Info::of(&find_store(store)?.store.stat(string(key, "the key")?)?));
        Ok(())
    })
}

/// Calls `visit` with each object whose key is `prefix` or lies below it, in the order of the keys; an empty prefix stands for all objects.
/// Objects that are made or removed meanwhile may be left out.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_list(
    store: *const Store,
    prefix: *const c_char,
    visit: Visit,
    context: *mut c_void,
) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let (prefix, visit) = (string(prefix, "the prefix")?, visit.ok_or_else(no_function)?);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let found = store.store.list(prefix, after.as_deref(), OBJECTS_PER_PAGE)?;
            for (key, object) in &found {
                let key =
                    CString::new(key.as_slice()).map_err(|_| Failure::Internal("a key has a NUL in it".into()))?;
                // SAFETY: the caller passes a function of this type, and takes what it needs from both before it returns.
                if unsafe { visit(context, key.as_ptr(), &Info::of(object)) } != 0 {
                    return Ok(());
                }
            }
            match found.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    })
}

fn no_function() -> Failure {
    Failure::Invalid("the function to call is null".into())
}

/// Renames an object, with all objects below its key if there are any, and replaces one that has the new key. No bytes move.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_rename(store: *const Store, from: *const c_char, to: *const c_char) -> Status {
    guard(|| {
        let store = find_store(store)?;
        store.files()?.rename_tree(string(from, "the key")?, string(to, "the new key")?)?;
        Ok(store.store.replan_renamed()?)
    })
}
