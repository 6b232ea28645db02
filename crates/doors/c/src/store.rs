//! Stores and their objects.

use std::ffi::{CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use datasets::Datasets;
use engine::files::Files;
use engine::{Config, PutOptions, Question};

use crate::failure::guard;
use crate::options::{ack, put_options};
use crate::{Failure, Options, Receipt, Status};
use terrace_foreign::Handles;
use terrace_foreign::{caller_buffer, caller_bytes, required_text, string, write_out, write_out_text};

static OPEN_STORES: Handles<Store> = Handles::new("store");

/// An open store. Many threads may use one at once.
pub struct Store {
    pub(crate) store: engine::Store,
    pub(crate) application: PutOptions,
    /// Made for the first open file.
    files: OnceLock<Files>,
    /// Its datasets, whose users share what is open.
    pub(crate) datasets: Datasets,
}

impl Store {
    /// Returns the store's files.
    pub(crate) fn files(&self) -> Result<&Files, Failure> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let files = Files::with(&self.store, self.application.clone())?;
        // If another thread was quicker, its files are used.
        Ok(self.files.get_or_init(|| files))
    }
}

pub(crate) fn find_store(store: *const Store) -> Result<Arc<Store>, Failure> {
    Ok(OPEN_STORES.find(store)?)
}

/// Makes a store in `directory` with the tiers of the configuration file `configuration`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_init(directory: *const c_char, configuration: *const c_char) -> Status {
    guard(|| {
        let directory = Path::new(OsStr::from_bytes(string(directory, "the directory")?));
        let file = Path::new(OsStr::from_bytes(string(configuration, "the configuration")?));
        let wrong = |error| Failure::Invalid(format!("{}: {error}", file.display()));
        let config = Config::parse(&std::fs::read_to_string(file).map_err(wrong)?, &file.display().to_string())?;
        engine::Store::init(directory, &config)?;
        Ok(())
    })
}

/// Opens the store in `directory`. The requirements of `application`, or null, apply to every call on it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_open(
    directory: *const c_char,
    application: *const Options,
    store: *mut *mut Store,
) -> Status {
    guard(|| {
        if store.is_null() {
            return Err(Failure::Invalid("the place for the store is null".into()));
        }
        let application = put_options(application)?;
        let directory = Path::new(OsStr::from_bytes(string(directory, "the directory")?));
        let opened = engine::Store::open(directory)?;
        let datasets = Datasets::new(&opened);
        write_out(store, OPEN_STORES.keep(Store { store: opened, application, files: OnceLock::new(), datasets }));
        Ok(())
    })
}

/// Waits at most a minute until no replica is pending and everything is durable, and then closes the store in any case.
/// Its open files are flushed; close them, its streams and its datasets before. Closing null does nothing. Closing a store twice is an
/// error that does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_close(store: *mut Store) -> Status {
    guard(|| {
        if store.is_null() {
            return Ok(());
        }
        // Another thread may still be in a call with this store; the last reference closes it.
        let taken = OPEN_STORES.take(store)?;
        let flushed = taken.files.get().map_or(Ok(()), Files::sync);
        taken.store.clone().close()?;
        Ok(flushed?)
    })
}

/// Writes a whole object and replaces an earlier object of the key. `operation` and `receipt` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_replicate(
    store: *const Store,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    operation: *const Options,
    receipt: *mut Receipt,
) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let options = put_options(operation)?.over(&store.application);
        let written = store.store.put_bytes(string(key, "the key")?, caller_bytes(bytes, length)?, &options)?;
        write_out(receipt, Receipt::of(&written, store.store.id()));
        Ok(())
    })
}

/// Writes a range of an object, which is created if it does not exist. Other ranges stay unchanged, even while others
/// write them.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_write_at(
    store: *const Store,
    key: *const c_char,
    offset: u64,
    bytes: *const c_void,
    length: usize,
    operation: *const Options,
    receipt: *mut Receipt,
) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let options = put_options(operation)?.over(&store.application);
        let written = store.store.write_at(string(key, "the key")?, offset, caller_bytes(bytes, length)?, &options)?;
        write_out(receipt, Receipt::of(&written, store.store.id()));
        Ok(())
    })
}

/// Appends bytes to an object, which is created if it does not exist. Many threads and processes may append to one
/// object: no bytes are lost, and the bytes of a call stay together. `offset` gets the position of the first byte.
/// `offset`, `operation` and `receipt` may be null.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_append(
    store: *const Store,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    operation: *const Options,
    offset: *mut u64,
    receipt: *mut Receipt,
) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let options = put_options(operation)?.over(&store.application);
        let appended = store.store.append(string(key, "the key")?, caller_bytes(bytes, length)?, &options)?;
        write_out(offset, appended.offset);
        write_out(receipt, Receipt::of(&appended.receipt, store.store.id()));
        Ok(())
    })
}

/// Reads from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the
/// object's end.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_read(
    store: *const Store,
    key: *const c_char,
    offset: u64,
    out: *mut c_void,
    length: usize,
    read: *mut usize,
) -> Status {
    guard(|| {
        let count = find_store(store)?.store.read_at(string(key, "the key")?, offset, caller_buffer(out, length)?)?;
        write_out(read, count);
        Ok(())
    })
}

/// Returns an object's length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_length(store: *const Store, key: *const c_char, length: *mut u64) -> Status {
    guard(|| {
        write_out(length, find_store(store)?.store.stat(string(key, "the key")?)?.length);
        Ok(())
    })
}

/// Returns the positions and encodings of an object's extents as the JSON that `terrace locate --json` prints. The
/// caller passes the text to `terrace_free`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_locate(store: *const Store, key: *const c_char, json: *mut *mut c_char) -> Status {
    guard(|| {
        let location = find_store(store)?.store.locate(string(key, "the key")?)?;
        Ok(write_out_text(json, serde_json::to_string(&location).map_err(|e| Failure::Internal(e.to_string()))?)?)
    })
}

/// Gives an object a copy under a second key, and replaces an earlier object of that key. The two share their stored bytes
/// until one of them changes. The copy is as durable as the object.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_copy(store: *const Store, from: *const c_char, to: *const c_char) -> Status {
    guard(|| Ok(find_store(store)?.store.copy(string(from, "the key")?, string(to, "the key of the copy")?)?))
}

/// Deletes an object.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_delete(store: *const Store, key: *const c_char) -> Status {
    guard(|| Ok(find_store(store)?.store.remove(string(key, "the key")?)?))
}

/// Waits until a write has reached `"placed"`, `"replicated"` or `"durable"`, and updates the receipt. The receipt must
/// be unchanged since a call on this store filled it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_wait(store: *const Store, receipt: *mut Receipt, level: *const c_char) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let level = ack(required_text(level, "the level")?)?;
        // SAFETY: the caller passes null or a place as long as a receipt.
        let mut known = unsafe { Receipt::known(receipt, store.store.id()) }?;
        store.store.wait(&mut known, level)?;
        write_out(receipt, Receipt::of(&known, store.store.id()));
        Ok(())
    })
}

/// Waits until no replica is pending and everything is durable.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_sync(store: *const Store) -> Status {
    guard(|| Ok(find_store(store)?.store.sync()?))
}

/// Explains how the store would place a block of bytes under a key, without writing it. Returns the JSON that `terrace
/// explain --json` prints; the caller passes the text to `terrace_free`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_plan(
    store: *const Store,
    key: *const c_char,
    bytes: *const c_void,
    length: usize,
    operation: *const Options,
    json: *mut *mut c_char,
) -> Status {
    guard(|| {
        let store = find_store(store)?;
        let options = &put_options(operation)?.over(&store.application);
        let block = caller_bytes(bytes, length)?;
        let question = Question { key: string(key, "the key")?, block, options, what_if: &[] };
        let explained = store.store.explain(&question)?;
        Ok(write_out_text(json, serde_json::to_string(&explained).map_err(|e| Failure::Internal(e.to_string()))?)?)
    })
}

/// Frees a text that a call returned. Freeing null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: one of the calls above allocated the text.
        drop(unsafe { CString::from_raw(text) });
    }
}
