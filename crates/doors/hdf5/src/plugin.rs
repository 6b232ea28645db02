//! The functions by which HDF5 recognises and takes the plug-in.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::callbacks;
use crate::class::{CLASS_VERSION, DRIVER_PLUGIN_TYPE, DriverClass, RAW_DATA_KIND, SUPERBLOCK_KIND, WEAK_CLOSE_DEGREE};
use crate::failure::complain;
use crate::library::Library;

/// The driver's number. None is registered for it; programs use the name.
const DRIVER_VALUE: c_int = 0x7472;

/// The driver, with the free lists of `sec2`: one for metadata, one for raw data. So both lay files out alike.
static TERRACE_DRIVER: DriverClass = DriverClass {
    version: CLASS_VERSION,
    value: DRIVER_VALUE,
    name: c"terrace".as_ptr(),
    max_address: i64::MAX as u64,
    close_degree: WEAK_CLOSE_DEGREE,
    terminate: None,
    superblock: [None; 3],
    access_properties_length: 0,
    access_properties: [None; 3],
    transfer_properties_length: 0,
    transfer_properties: [None; 2],
    open: callbacks::open,
    close: callbacks::close,
    compare: callbacks::compare,
    query: callbacks::query,
    get_type_map: None,
    allocation: [None; 2],
    get_end_of_addresses: callbacks::get_end_of_addresses,
    set_end_of_addresses: callbacks::set_end_of_addresses,
    get_end_of_file: callbacks::get_end_of_file,
    get_handle: callbacks::get_handle,
    read: callbacks::read,
    write: callbacks::write,
    lists: [None; 4],
    flush: callbacks::flush,
    truncate: callbacks::truncate,
    lock: callbacks::lock,
    unlock: callbacks::unlock,
    delete: callbacks::delete,
    control: callbacks::control,
    free_lists: [
        SUPERBLOCK_KIND,
        SUPERBLOCK_KIND,
        SUPERBLOCK_KIND,
        RAW_DATA_KIND,
        RAW_DATA_KIND,
        SUPERBLOCK_KIND,
        SUPERBLOCK_KIND,
    ],
};

/// Tells HDF5 that the plug-in is a driver.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    DRIVER_PLUGIN_TYPE
}

/// Gives HDF5 the driver. Refuses versions whose structures are not known to be those of `class`.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    if let Some((major, minor)) = Library::of_caller().and_then(|library| library.version())
        && !matches!((major, minor), (1, 14..) | (2, _))
    {
        complain(&format!(
            "the driver is for HDF5 1.14 and 2, and this program has {major}.{minor}; `terrace run` shows it the store's files otherwise"
        ));
        return ptr::null();
    }
    (&raw const TERRACE_DRIVER).cast()
}
