//! `libterrace_hdf5.so`: HDF5 programs use files of a store below a path prefix.
//!
//! ```text
//! HDF5_PLUGIN_PATH=DIR HDF5_DRIVER=terrace TERRACE_PREFIX=/terrace TERRACE_STORE=STORE PROGRAM
//! ```
//!
//! HDF5 reads and writes through *virtual file drivers*. This is one, as a plug-in that HDF5 1.14 and 2 load. A file below the prefix goes to
//! [`terrace::Files`]; any other file is treated as by HDF5's own driver `sec2`. The driver adds nothing to the format of files.
//!
//! **No libhdf5 is linked**, since programs bring their own, often under another name, and sometimes several in one process. `class` declares the
//! part of HDF5's interface that is used; `library` finds the libhdf5 that calls, for errors and for the few questions that a driver has.
//!
//! `callbacks` has the functions that HDF5 calls, `driven` an open file as they see it. Its bytes are those of an `OrdinaryFile` or a
//! `FileOfStore`.

// HDF5 is C. Each module says why its use of raw pointers is safe.
#![allow(unsafe_code)]

mod callbacks;
mod class;
mod driven;
mod failure;
mod file_of_store;
mod library;
mod locking;
mod open_bytes;
mod opening;
mod ordinary;
mod plugin;
mod store;
