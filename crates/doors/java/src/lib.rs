//! The native half of the Java package `io.terrace`: converts arguments and errors, and calls the engine. No panic crosses the boundary.
//!
//! **It uses JNI**, which Java 11 has, **and calls the engine from Rust**: over `terrace.h`, each error would lose its type, and a panic or a
//! closed store its exception. The other half is in `java/`; `package` makes the jar of both, and `hadoop/` has Hadoop's file system in a jar
//! of its own.

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
