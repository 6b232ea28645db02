//! `kind = "object"` in a program without support for it: every use returns an error that says how to build it in.

use std::io;
use std::path::PathBuf;

use crate::{Capabilities, NamedBlobs, OpenedTarget, TargetFound, TargetKind, TargetOwner, TargetSettings};

/// Blobs of a service such as S3.
pub struct ObjectKind;

/// Returns why targets of this service are unavailable, and how to build them in.
pub fn unavailable(service: &str) -> Option<String> {
    Some(format!(
        "object targets are not compiled in; the cargo feature services-{service} does that, if there is such a service"
    ))
}

fn reason(settings: &TargetSettings) -> String {
    unavailable(settings.service.as_deref().unwrap_or("NAME")).unwrap_or_default()
}

fn missing<T>(settings: &TargetSettings) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, reason(settings)))
}

impl TargetKind for ObjectKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities { remote: true, ..Capabilities::default() }
    }

    fn default_path(&self) -> Option<&str> {
        Some("/")
    }

    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        Err(reason(settings))
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        missing(settings)
    }

    fn open(&self, settings: &TargetSettings, _: &TargetOwner) -> io::Result<OpenedTarget> {
        missing(settings)
    }

    fn named_blobs(&self, settings: &TargetSettings) -> io::Result<Box<dyn NamedBlobs>> {
        missing(settings)
    }

    fn find(&self, settings: &TargetSettings, _: &TargetOwner) -> io::Result<TargetFound> {
        missing(settings)
    }

    fn remove(&self, settings: &TargetSettings, _: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        missing(settings)
    }
}
