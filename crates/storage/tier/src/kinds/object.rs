//! `kind = "object"`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::service::unavailable;
use crate::{
    Blobs, Capabilities, NamedBlobs, ObjectTarget, OpenedTarget, Service, TargetFound, TargetKind, TargetOwner,
    TargetSettings,
};

/// The longest time that a call of a service may take if the tier has no `timeout`.
const DEFAULT_SERVICE_TIMEOUT: Duration = Duration::from_secs(10);

/// Blobs of a service such as S3.
pub struct ObjectKind;

fn service(settings: &TargetSettings) -> Service {
    Service {
        name: settings.service.clone().unwrap_or_default(),
        options: settings.options.clone(),
        root: settings.path.to_string_lossy().into_owned(),
        timeout: settings.timeout.unwrap_or(DEFAULT_SERVICE_TIMEOUT),
    }
}

/// The target; the file `made` says that it was made.
fn target(settings: &TargetSettings, owner: &TargetOwner, made: Option<PathBuf>) -> io::Result<ObjectTarget> {
    ObjectTarget::new(service(settings), owner, settings.capacity, made)
}

impl TargetKind for ObjectKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities { remote: true, open_segments: true, ends_hung_calls: true, ..Capabilities::default() }
    }

    fn default_path(&self) -> Option<&str> {
        Some("/")
    }

    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        let Some(service) = settings.service.as_deref() else {
            return Err("no service is named; write service = \"s3\" or the like".into());
        };
        if let Some(reason) = unavailable(service) {
            return Err(reason);
        }
        match settings.options.contains_key("root") {
            true => Err("write the root among the targets, as targets = [\"/runs\"], not as an option".into()),
            false => Ok(()),
        }
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        service(settings).probe()
    }

    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        let made = settings.persistent.then(|| owner.made_note());
        OpenedTarget::open(Arc::new(target(settings, owner, made)?), owner)
    }

    fn named_blobs(&self, settings: &TargetSettings) -> io::Result<Box<dyn NamedBlobs>> {
        Ok(Box::new(Blobs::new(&service(settings))?))
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        target(settings, owner, None)?.find()
    }

    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        target(settings, owner, None)?.remove_all(|| owner.forget_made())?;
        Ok(Vec::new())
    }
}
