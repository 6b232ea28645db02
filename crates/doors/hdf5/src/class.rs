//! The part of HDF5's interface for drivers that this crate uses, as in `H5FDdevelop.h` of HDF5 1.14, 2.0 and 2.2, which agree.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::{offset_of, size_of};

/// `haddr_t` and `hsize_t`: an address in a file, or a number of bytes.
pub type FileAddress = u64;
/// `hid_t`: the number of one of the library's objects.
pub type HdfId = i64;
/// `herr_t`: negative for a failure.
pub type HdfStatus = c_int;
/// `H5FD_mem_t`: the kind of some bytes of a file.
pub type ByteKind = c_int;
/// A function that this driver does not have, and whose signature it need not know.
pub type AbsentFunction = Option<unsafe extern "C" fn()>;

/// Success as a status.
pub const SUCCESS_STATUS: HdfStatus = 0;
/// Failure as a status.
pub const FAILURE_STATUS: HdfStatus = -1;

/// The version of the structures here (`H5FD_CLASS_VERSION`). The library refuses a driver with another one than its own.
pub const CLASS_VERSION: c_uint = 1;
/// The type of plug-ins that are drivers (`H5PL_TYPE_VFD`).
pub const DRIVER_PLUGIN_TYPE: c_int = 2;
/// A file whose last object is open stays open (`H5F_CLOSE_WEAK`), as with `sec2`.
pub const WEAK_CLOSE_DEGREE: c_int = 1;

/// Bytes of the superblock (`H5FD_MEM_SUPER`), in whose free list all metadata is.
pub const SUPERBLOCK_KIND: ByteKind = 1;
/// Bytes of datasets (`H5FD_MEM_DRAW`).
pub const RAW_DATA_KIND: ByteKind = 3;
/// The number of kinds of bytes.
pub const BYTE_KIND_COUNT: usize = 7;

/// The library may allocate metadata in larger blocks.
pub const AGGREGATED_METADATA_FEATURE: c_ulong = 0x1;
/// The library may collect metadata before it reads or writes it.
pub const ACCUMULATED_METADATA_FEATURE: c_ulong = 0x2 | 0x4;
/// The library may read and write raw data in larger pieces than were asked for.
pub const SIEVED_DATA_FEATURE: c_ulong = 0x8;
/// The library may allocate small raw data in larger blocks.
pub const AGGREGATED_SMALL_DATA_FEATURE: c_ulong = 0x10;
/// The handle of a file is a descriptor of the kernel.
pub const DESCRIPTOR_FEATURE: c_ulong = 0x80;
/// Readers may follow a writer (SWMR).
pub const FOLLOWING_READERS_FEATURE: c_ulong = 0x1000;
/// The files that the driver writes can be opened by the default driver.
pub const DEFAULT_FORMAT_FEATURE: c_ulong = 0x8000;

/// A file is opened for writing, too (`H5F_ACC_RDWR`).
pub const WRITE_FLAG: c_uint = 0x1;
/// The bytes of an existing file are dropped (`H5F_ACC_TRUNC`).
pub const TRUNCATE_FLAG: c_uint = 0x2;
/// An existing file is an error (`H5F_ACC_EXCL`).
pub const NEW_FLAG: c_uint = 0x4;
/// A missing file is created (`H5F_ACC_CREAT`).
pub const CREATE_FLAG: c_uint = 0x10;
/// An unknown request of `ctl` is an error (`H5FD_CTL_FAIL_IF_UNKNOWN_FLAG`).
pub const KNOWN_ONLY_FLAG: u64 = 0x1;

/// `H5FD_class_t`: a driver. The library copies it.
#[repr(C)]
pub struct DriverClass {
    /// The version of this structure.
    pub version: c_uint,
    /// The driver's number. Those below 256 are the library's own.
    pub value: c_int,
    /// The driver's name, as in `HDF5_DRIVER`.
    pub name: *const c_char,
    /// The highest address in a file.
    pub max_address: FileAddress,
    /// When a file is closed whose objects are still open.
    pub close_degree: c_int,
    /// Ends the driver.
    pub terminate: AbsentFunction,
    /// The three functions for a driver's own bytes in the superblock: their number, writing and reading them.
    pub superblock: [AbsentFunction; 3],
    /// The length of the driver's own access properties, and the functions that get, copy and free them.
    pub access_properties_length: usize,
    /// See above.
    pub access_properties: [AbsentFunction; 3],
    /// The length of the driver's own transfer properties, and the functions that copy and free them.
    pub transfer_properties_length: usize,
    /// See above.
    pub transfer_properties: [AbsentFunction; 2],
    /// Opens a file.
    pub open: unsafe extern "C" fn(*const c_char, c_uint, HdfId, FileAddress) -> *mut FileHead,
    /// Closes a file.
    pub close: unsafe extern "C" fn(*mut FileHead) -> HdfStatus,
    /// Orders two files; 0 if they are one.
    pub compare: unsafe extern "C" fn(*const FileHead, *const FileHead) -> c_int,
    /// Tells the features of a file, or of the driver if there is no file.
    pub query: unsafe extern "C" fn(*const FileHead, *mut c_ulong) -> HdfStatus,
    /// Tells which free list each kind of bytes has in a file.
    pub get_type_map: AbsentFunction,
    /// Allocates and frees addresses.
    pub allocation: [AbsentFunction; 2],
    /// Returns the first address behind all that are in use.
    pub get_end_of_addresses: unsafe extern "C" fn(*const FileHead, ByteKind) -> FileAddress,
    /// Sets it.
    pub set_end_of_addresses: unsafe extern "C" fn(*mut FileHead, ByteKind, FileAddress) -> HdfStatus,
    /// Returns the file's length.
    pub get_end_of_file: unsafe extern "C" fn(*const FileHead, ByteKind) -> FileAddress,
    /// Returns the handle below the driver.
    pub get_handle: unsafe extern "C" fn(*mut FileHead, HdfId, *mut *mut c_void) -> HdfStatus,
    /// Reads bytes.
    pub read: unsafe extern "C" fn(*mut FileHead, ByteKind, HdfId, FileAddress, usize, *mut c_void) -> HdfStatus,
    /// Writes bytes.
    pub write: unsafe extern "C" fn(*mut FileHead, ByteKind, HdfId, FileAddress, usize, *const c_void) -> HdfStatus,
    /// Read and write lists of ranges, then selections in dataspaces. Without them, the library asks for range after range.
    pub lists: [AbsentFunction; 4],
    /// Makes what was written safe, or only complete if the file is being closed.
    pub flush: unsafe extern "C" fn(*mut FileHead, HdfId, bool) -> HdfStatus,
    /// Gives the file the length of its addresses.
    pub truncate: unsafe extern "C" fn(*mut FileHead, HdfId, bool) -> HdfStatus,
    /// Locks a file, exclusively if the flag is set.
    pub lock: unsafe extern "C" fn(*mut FileHead, bool) -> HdfStatus,
    /// Gives a lock up.
    pub unlock: unsafe extern "C" fn(*mut FileHead) -> HdfStatus,
    /// Removes a file.
    pub delete: unsafe extern "C" fn(*const c_char, HdfId) -> HdfStatus,
    /// Carries out a request that only some drivers know.
    pub control: unsafe extern "C" fn(*mut FileHead, u64, u64, *const c_void, *mut *mut c_void) -> HdfStatus,
    /// The free list of each kind of bytes.
    pub free_lists: [ByteKind; BYTE_KIND_COUNT],
}

// SAFETY: it is never changed, and its name is a constant.
unsafe impl Sync for DriverClass {}

/// `H5FD_t`: the beginning of every driver's structure for an open file. The library fills it after `open`, and reads it.
#[repr(C)]
#[derive(Default)]
pub struct FileHead {
    driver: HdfId,
    class: *const DriverClass,
    number: c_ulong,
    access_flags: c_uint,
    features: c_ulong,
    max_address: FileAddress,
    base_address: FileAddress,
    alignment_threshold: FileAddress,
    alignment: FileAddress,
    is_allocated_by_page: bool,
}

// The library would call other functions, or write behind the head, if a field were missing or had another size.
const _: () = {
    assert!(offset_of!(DriverClass, max_address) == 16);
    assert!(offset_of!(DriverClass, access_properties_length) == 64);
    assert!(offset_of!(DriverClass, open) == 120);
    assert!(offset_of!(DriverClass, get_end_of_addresses) == 176);
    assert!(offset_of!(DriverClass, read) == 208);
    assert!(offset_of!(DriverClass, flush) == 256);
    assert!(offset_of!(DriverClass, free_lists) == 304);
    assert!(size_of::<DriverClass>() == 336);
    assert!(offset_of!(FileHead, features) == 32);
    assert!(size_of::<FileHead>() == 80);
};
