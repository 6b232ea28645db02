//! The native half of the Java package `io.terrace`: converts arguments and errors, and calls the engine. No panic crosses the boundary.

// Java exports functions by name and passes addresses; the comment at each use says why it is valid.
#![allow(unsafe_code)]

mod arrays;
mod bytes;
mod call;
mod file;
mod files;
mod numbered;
mod options;
mod receipt;
mod store;
mod stores;
mod thrown;
