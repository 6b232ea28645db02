//! Decorators, which change the behaviour of a target.

/// Delegates the named methods of [`crate::Target`] or [`crate::FileStore`] to `self.inner`.
macro_rules! delegate {
    (@one free) => {
        fn free(&self, places: &[$crate::Place]) -> std::io::Result<()> {
            self.inner.free(places)
        }
    };
    (@one is_whole) => {
        fn is_whole(&self, place: $crate::Place) -> std::io::Result<bool> {
            self.inner.is_whole(place)
        }
    };
    (@one discard) => {
        fn discard(&self, segment: u64) -> std::io::Result<bool> {
            self.inner.discard(segment)
        }
    };
    (@one allocated) => {
        fn allocated(&self, segment: u64) -> u64 {
            self.inner.allocated(segment)
        }
    };
    (@one sync_failed) => {
        fn sync_failed(&self, segment: u64) -> bool {
            self.inner.sync_failed(segment)
        }
    };
    (@one used) => {
        fn used(&self) -> u64 {
            self.inner.used()
        }
    };
    (@one space) => {
        fn space(&self) -> std::io::Result<$crate::Space> {
            self.inner.space()
        }
    };
    (@one scan) => {
        fn scan(&self, found: &mut dyn FnMut($crate::Place, terrace_format::frame::Header)) -> std::io::Result<()> {
            self.inner.scan(found)
        }
    };
    // The decorator is the file store, so that it decorates those calls as well.
    (@one files) => {
        fn files(&self) -> Option<&dyn $crate::FileStore> {
            self.inner.files().map(|_| self as &dyn $crate::FileStore)
        }
    };
    (@one set_name) => {
        fn set_name(&self, key: &[u8], now: Option<&$crate::Whole>, before: &[u64]) -> std::io::Result<bool> {
            $crate::decorate::files(&*self.inner)?.set_name(key, now, before)
        }
    };
    (@one is_named) => {
        fn is_named(&self, key: &[u8], whole: &$crate::Whole) -> std::io::Result<bool> {
            $crate::decorate::files(&*self.inner)?.is_named(key, whole)
        }
    };
    (@one names) => {
        fn names(&self) -> std::io::Result<Vec<(Vec<u8>, u64)>> {
            $crate::decorate::files(&*self.inner)?.names()
        }
    };
    (@one numbers) => {
        fn numbers(&self) -> std::io::Result<Vec<u64>> {
            $crate::decorate::files(&*self.inner)?.numbers()
        }
    };
    (@one ready) => {
        fn ready(&self) -> std::io::Result<()> {
            self.inner.ready()
        }
    };
    (@one check_again) => {
        fn check_again(&self) -> std::io::Result<()> {
            self.inner.check_again()
        }
    };
    (@one note_synced) => {
        fn note_synced(&self, reach: terrace_format::Reach) -> std::io::Result<()> {
            self.inner.note_synced(reach)
        }
    };
    (@one synced_to) => {
        fn synced_to(&self) -> std::io::Result<Option<terrace_format::Reach>> {
            self.inner.synced_to()
        }
    };
    (@one note_new) => {
        fn note_new(&self) -> std::io::Result<()> {
            self.inner.note_new()
        }
    };
    (@one is_new) => {
        fn is_new(&self) -> bool {
            self.inner.is_new()
        }
    };
    (@one adopt) => {
        fn adopt(&self, file: u64, source: &std::fs::File) -> std::io::Result<Option<$crate::Adoption>> {
            $crate::decorate::files(&*self.inner)?.adopt(file, source)
        }
    };
    (@one describe_frame) => {
        fn describe_frame(&self, file: u64, frame: &terrace_format::frame::Frame<'_>) -> std::io::Result<$crate::Place> {
            $crate::decorate::files(&*self.inner)?.describe_frame(file, frame)
        }
    };
    (@one is_linked) => {
        fn is_linked(&self, file: u64) -> bool {
            $crate::decorate::files(&*self.inner).is_ok_and(|files| files.is_linked(file))
        }
    };
    (@one forget_new) => {
        fn forget_new(&self) -> std::io::Result<()> {
            self.inner.forget_new()
        }
    };
    (@one named_blobs) => {
        fn named_blobs(&self) -> Option<&dyn $crate::NamedBlobs> {
            self.inner.named_blobs()
        }
    };
    (@one file) => {
        fn file(&self, segment: u64) -> Option<std::path::PathBuf> {
            self.inner.file(segment)
        }
    };
    ($($method:ident)*) => {
        $(delegate!(@one $method);)*
    };
}

use std::io;

use crate::{FileStore, Target};

mod deadline;
mod faults;
mod throttle;

pub use deadline::Deadline;
pub use faults::{Failure, FaultPlan, Faults};
pub use throttle::{Limits, Throttle};

/// The plain files of a decorated target.
///
/// # Errors
/// `Unsupported` if it has none.
fn files(inner: &dyn Target) -> io::Result<&dyn FileStore> {
    inner.files().ok_or_else(|| io::ErrorKind::Unsupported.into())
}
