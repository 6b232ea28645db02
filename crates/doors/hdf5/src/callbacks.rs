//! The functions that HDF5 calls.
//!
//! The library gives each a file that `open` returned and `close` has not had, and buffers of the lengths that it says.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::{ptr, slice};

use terrace_prefix::calls;

use crate::class::{
    ByteKind, FAILURE_STATUS, FileAddress, FileHead, HdfId, HdfStatus, KNOWN_ONLY_FLAG, SUCCESS_STATUS,
};
use crate::driven::{COMMON_FEATURES, DrivenFile};
use crate::failure::{DriverError, DriverResult, FailedCall};
use crate::ordinary::ORDINARY_FEATURES;
use crate::{locking, opening};

/// An open file as HDF5 has it: it knows the beginning.
#[repr(C)]
struct HandedFile {
    head: FileHead,
    file: DrivenFile,
}

/// Takes a file that HDF5 gives back.
///
/// # Safety
/// It is one that `open` returned, and lives as long as the result is used.
unsafe fn file<'a>(handed: *const FileHead) -> &'a DrivenFile {
    // SAFETY: as the caller says.
    unsafe { &(*handed.cast::<HandedFile>()).file }
}

/// Runs a call. Tells HDF5 if it fails.
fn answer<T>(call: FailedCall, name: &str, run: impl FnOnce() -> DriverResult<T>) -> Option<T> {
    let panicked = || Err(DriverError::new(libc::EIO, "the engine failed unexpectedly; standard error says where"));
    match calls::run(run).unwrap_or_else(panicked) {
        Ok(value) => Some(value),
        Err(error) => {
            call.report(name, &error);
            None
        }
    }
}

fn status(call: FailedCall, name: &str, run: impl FnOnce() -> DriverResult<()>) -> HdfStatus {
    answer(call, name, run).map_or(FAILURE_STATUS, |()| SUCCESS_STATUS)
}

pub unsafe extern "C" fn open(
    name: *const c_char,
    flags: c_uint,
    properties: HdfId,
    _max_address: FileAddress,
) -> *mut FileHead {
    // SAFETY: HDF5 gives a text.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    let ignores_missing_locks = locking::ignores_missing_support(properties);
    let opened = answer(FailedCall::OPEN_CALL, &name.to_string_lossy(), || {
        DrivenFile::open(name, flags.into(), ignores_missing_locks)
    });
    let handed = opened.map(|file| Box::new(HandedFile { head: FileHead::default(), file }));
    handed.map_or(ptr::null_mut(), |handed| Box::into_raw(handed).cast())
}

pub unsafe extern "C" fn close(handed: *mut FileHead) -> HdfStatus {
    // SAFETY: `open` made it, and HDF5 does not use it again.
    let HandedFile { head: _, file } = *unsafe { Box::from_raw(handed.cast::<HandedFile>()) };
    let name = file.name.clone();
    status(FailedCall::CLOSE_CALL, &name, || {
        let placed = file.bytes.place();
        // Here, because this is the engine's work, too.
        drop(file);
        placed
    })
}

pub unsafe extern "C" fn compare(one: *const FileHead, other: *const FileHead) -> c_int {
    // SAFETY: both are open.
    let (one, other) = unsafe { (file(one), file(other)) };
    one.bytes.identity().cmp(&other.bytes.identity()) as c_int
}

pub unsafe extern "C" fn query(handed: *const FileHead, features: *mut c_ulong) -> HdfStatus {
    // SAFETY: the file is open or null.
    let own = if handed.is_null() { ORDINARY_FEATURES } else { unsafe { file(handed) }.bytes.features() };
    if !features.is_null() {
        // SAFETY: it is HDF5's own number.
        unsafe { *features = COMMON_FEATURES | own };
    }
    SUCCESS_STATUS
}

pub unsafe extern "C" fn get_end_of_addresses(handed: *const FileHead, _kind: ByteKind) -> FileAddress {
    // SAFETY: the file is open.
    unsafe { file(handed) }.end_of_addresses()
}

pub unsafe extern "C" fn set_end_of_addresses(
    handed: *mut FileHead,
    _kind: ByteKind,
    address: FileAddress,
) -> HdfStatus {
    // SAFETY: the file is open.
    unsafe { file(handed) }.set_end_of_addresses(address);
    SUCCESS_STATUS
}

pub unsafe extern "C" fn get_end_of_file(handed: *const FileHead, _kind: ByteKind) -> FileAddress {
    // SAFETY: the file is open.
    unsafe { file(handed) }.end_of_file()
}

pub unsafe extern "C" fn get_handle(handed: *mut FileHead, _properties: HdfId, handle: *mut *mut c_void) -> HdfStatus {
    // SAFETY: the file is open.
    let file = unsafe { file(handed) };
    status(FailedCall::HANDLE_CALL, &file.name, || {
        let no_descriptor = || DriverError::new(libc::ENOTSUP, "a file in a store has no descriptor");
        let descriptor = file.bytes.descriptor().ok_or_else(no_descriptor)?;
        if handle.is_null() {
            return Err(DriverError::new(libc::EINVAL, "there is no room for the handle"));
        }
        // SAFETY: it is HDF5's own pointer. The descriptor lives as long as the file.
        unsafe { *handle = ptr::from_ref(descriptor).cast_mut().cast() };
        Ok(())
    })
}

pub unsafe extern "C" fn read(
    handed: *mut FileHead,
    _kind: ByteKind,
    _properties: HdfId,
    address: FileAddress,
    length: usize,
    buffer: *mut c_void,
) -> HdfStatus {
    if length == 0 {
        return SUCCESS_STATUS;
    }
    // SAFETY: the file is open, and the buffer has this length. Bytes that were not set before are only written to.
    let (file, out) = unsafe { (file(handed), slice::from_raw_parts_mut(buffer.cast::<u8>(), length)) };
    status(FailedCall::READ_CALL, &file.name, || file.read(address, out))
}

pub unsafe extern "C" fn write(
    handed: *mut FileHead,
    _kind: ByteKind,
    _properties: HdfId,
    address: FileAddress,
    length: usize,
    buffer: *const c_void,
) -> HdfStatus {
    if length == 0 {
        return SUCCESS_STATUS;
    }
    // SAFETY: the file is open, and the buffer has this length.
    let (file, bytes) = unsafe { (file(handed), slice::from_raw_parts(buffer.cast::<u8>(), length)) };
    status(FailedCall::WRITE_CALL, &file.name, || file.write(address, bytes))
}

pub unsafe extern "C" fn flush(handed: *mut FileHead, _properties: HdfId, is_closing: bool) -> HdfStatus {
    // SAFETY: the file is open.
    let file = unsafe { file(handed) };
    status(FailedCall::FLUSH_CALL, &file.name, || file.flush(is_closing))
}

pub unsafe extern "C" fn truncate(handed: *mut FileHead, _properties: HdfId, _is_closing: bool) -> HdfStatus {
    // SAFETY: the file is open.
    let file = unsafe { file(handed) };
    status(FailedCall::TRUNCATE_CALL, &file.name, || file.truncate())
}

pub unsafe extern "C" fn lock(handed: *mut FileHead, exclusively: bool) -> HdfStatus {
    // SAFETY: the file is open.
    let file = unsafe { file(handed) };
    status(FailedCall::LOCK_CALL, &file.name, || file.lock(exclusively))
}

pub unsafe extern "C" fn unlock(handed: *mut FileHead) -> HdfStatus {
    // SAFETY: the file is open.
    let file = unsafe { file(handed) };
    status(FailedCall::UNLOCK_CALL, &file.name, || file.unlock())
}

pub unsafe extern "C" fn delete(name: *const c_char, _properties: HdfId) -> HdfStatus {
    // SAFETY: HDF5 gives a text.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    status(FailedCall::DELETE_CALL, &name.to_string_lossy(), || opening::delete(name))
}

/// No request is known here, as in `sec2`.
pub unsafe extern "C" fn control(
    handed: *mut FileHead,
    request: u64,
    flags: u64,
    _input: *const c_void,
    _output: *mut *mut c_void,
) -> HdfStatus {
    if flags & KNOWN_ONLY_FLAG == 0 {
        return SUCCESS_STATUS;
    }
    // SAFETY: the file is open or null.
    let name = if handed.is_null() { "" } else { &unsafe { file(handed) }.name };
    status(FailedCall::CONTROL_CALL, name, || {
        Err(DriverError::new(libc::ENOTSUP, format!("the driver does not know request {request}")))
    })
}
