//! Opening the targets that a configuration names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use terrace_catalog::TargetId;
use terrace_tier::decorate::{Deadline, Limits, Throttle};
use terrace_tier::{Directory, EmptiedNote, Ids, Memory, Space, Target, Used};
#[cfg(feature = "object")]
use terrace_tier::{Object, Service};

use super::Device;
use super::monitor::Speed;
use super::trouble::Trouble;
use crate::config::{Config, TargetConfig, TierConfig, TierKind};
use crate::{Error, Result};

/// The assumed speed of an unused device without a throttle, in bytes per second.
const MEMORY_SPEED: f64 = 2.5e9;
const DISK_SPEED: f64 = 5e8;
const SERVICE_SPEED: f64 = 1e8;
/// How long a call to a service may take.
#[cfg(feature = "object")]
const SERVICE_TIMEOUT: Duration = Duration::from_secs(10);

/// A target as it was opened, with what keeps it from being used at once.
type Opened = (Arc<dyn Target>, Option<io::Error>);

/// The values that all targets of a store share.
pub struct Opener<'a> {
    /// The store's id.
    pub store: u64,
    /// The store's directory.
    pub dir: &'a Path,
    /// Where numbers come from.
    pub ids: &'a Arc<dyn Ids>,
    /// How quick tiers are, by name, where they were profiled.
    pub profiled: BTreeMap<String, terrace_predict::ProfiledTier>,
}

impl Opener<'_> {
    /// Opens one target of the tier that is the `level`-th.
    pub fn device(&self, tier: &TierConfig, level: usize, described: &TargetConfig, id: TargetId) -> Result<Device> {
        let path = match &tier.service {
            Some(service) => format!("{service}:{}", described.path.display()).into(),
            None => described.path.clone(),
        };
        let context = || format!("tier {:?}: opening target {}", tier.name, path.display());
        let (mut target, trouble) = self.target(tier, described, id).map_err(Error::io(context()))?;
        let limits = tier.throttle.as_ref().map(|t| Limits {
            read: t.read.map(|r| r.0),
            write: t.write.map(|r| r.0),
            latency: t.latency.map_or(Duration::ZERO, |l| l.0),
        });
        if let Some(limits) = limits.clone() {
            let state = self.dir.join(format!("throttle-{id}"));
            target = Arc::new(Throttle::new(target, limits, &state).map_err(Error::io(context()))?);
        }
        if let Some(limit) = tier.timeout.filter(|_| tier.kind != TierKind::Object) {
            target = Arc::new(Deadline::new(target, limit.0));
        }
        let usual = match tier.kind {
            TierKind::Object => SERVICE_SPEED,
            _ if in_memory(&path) => MEMORY_SPEED,
            _ => DISK_SPEED,
        };
        let profiled = self.profiled.get(&tier.name);
        let latency = limits.as_ref().map_or(Duration::ZERO, |l| l.latency);
        let latency = profiled.map_or(latency, |p| Duration::try_from_secs_f64(p.latency).unwrap_or(latency));
        let speed = |set: Option<u64>, profiled: Option<f64>| {
            Speed::expected(profiled.unwrap_or(set.map_or(usual, |rate| rate as f64)), latency)
        };
        let space = target.space().unwrap_or_else(|_| Space::within(0, tier.capacity.map_or(u64::MAX, |c| c.0)));
        let device = Device {
            id,
            tier: level,
            domain: described.domain.clone().unwrap_or_else(|| format!("target-{id}")),
            path,
            capacity: AtomicU64::new(space.capacity),
            busy: AtomicU32::new(0),
            target,
            reading: speed(limits.as_ref().and_then(|l| l.read), profiled.map(|p| p.read)),
            writing: speed(limits.as_ref().and_then(|l| l.write), profiled.map(|p| p.write)),
            quick: limits.is_none() && tier.timeout.is_none() && tier.kind != TierKind::Object,
            far: tier.kind == TierKind::Object,
            trouble: Trouble::default(),
        };
        if let Some(e) = trouble {
            device.failed(&e);
        }
        Ok(device)
    }

    fn target(&self, tier: &TierConfig, described: &TargetConfig, id: TargetId) -> io::Result<Opened> {
        let capacity = tier.capacity.map_or(u64::MAX, |c| c.0);
        let ids = self.ids.clone();
        let target: Arc<dyn Target> = match tier.kind {
            TierKind::Directory => return self.directory(tier, described, id, capacity),
            TierKind::Memory => Arc::new(Memory::new(self.store, capacity, ids)),
            TierKind::Object => return self.object(tier, described, id, capacity),
        };
        Ok((target, None))
    }

    /// A directory that is not there is made where it may be: in memory, or at first. Else it is set aside, as is one that
    /// cannot be reached.
    fn directory(&self, tier: &TierConfig, at: &TargetConfig, id: TargetId, capacity: u64) -> io::Result<Opened> {
        let made = made(self.dir, id);
        let make = !tier.persistent || !made.exists();
        let used = Used::open(&self.dir.join(format!("used-{id}")));
        let emptied = EmptiedNote::new(self.dir.join(format!("emptied-{id}")));
        let target = Directory::new(&at.path, (self.store, id), capacity, used, self.ids.clone(), make, emptied);
        match target.ready() {
            Ok(()) if !made.exists() => File::create(&made)?.sync_all()?,
            // Memory that is full when the store is opened is set aside: all that was there is on other tiers, or gone.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists || make && tier.persistent => return Err(e),
            _ => {}
        }
        let trouble = target.ready().err();
        Ok((Arc::new(target), trouble))
    }

    /// A service that cannot be reached just now is set aside. One that cannot be right is an error.
    #[cfg(feature = "object")]
    fn object(&self, tier: &TierConfig, described: &TargetConfig, id: TargetId, capacity: u64) -> io::Result<Opened> {
        let folder = self.dir.join(format!("object-{id}"));
        let made = tier.persistent.then(|| made(self.dir, id));
        let target = Object::new(service(tier, described), self.store, id, capacity, self.ids.clone(), &folder, made)?;
        match target.ready() {
            Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidInput) => Err(e),
            ready => Ok((Arc::new(target), ready.err())),
        }
    }

    #[cfg(not(feature = "object"))]
    fn object(&self, tier: &TierConfig, _: &TargetConfig, _: TargetId, _: u64) -> io::Result<Opened> {
        let reason = terrace_tier::unavailable(tier.service.as_deref().unwrap_or_default());
        Err(io::Error::new(io::ErrorKind::Unsupported, reason.unwrap_or_default()))
    }
}

/// The file that says that a target was made: from then on an empty directory or bucket in its place is not it.
pub fn made(store: &Path, id: TargetId) -> PathBuf {
    store.join(format!("target-{id}"))
}

/// An object target that is to be looked at and emptied; it is not used otherwise.
#[cfg(feature = "object")]
pub fn object_to_remove(
    tier: &TierConfig,
    at: &TargetConfig,
    id: TargetId,
    dir: &Path,
    store: u64,
) -> io::Result<Object> {
    struct NoIds;
    impl Ids for NoIds {
        fn next(&self) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
    Object::new(service(tier, at), store, id, 0, Arc::new(NoIds), &dir.join(format!("object-{id}")), None)
}

/// Sees that each target of a store to be made can be there, and that no other store's is: else none is made.
pub fn probe(config: &Config) -> Result<()> {
    for (tier, described) in config.tiers.iter().flat_map(|tier| tier.targets.iter().map(move |of| (tier, of))) {
        match tier.kind {
            TierKind::Directory => {
                let path = &described.path;
                let context = format!("tier {:?}: opening target {}", tier.name, path.display());
                Directory::probe(path).map_err(Error::io(context))?;
            }
            #[cfg(feature = "object")]
            TierKind::Object => {
                let service = service(tier, described);
                service.probe().map_err(Error::io(format!("tier {:?}: reaching {service}", tier.name)))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(feature = "object")]
fn service(tier: &TierConfig, described: &TargetConfig) -> Service {
    let mut options = tier.options.clone();
    options.extend(described.options.clone());
    Service {
        name: tier.service.clone().unwrap_or_default(),
        options,
        root: described.path.to_string_lossy().into_owned(),
        timeout: tier.timeout.map_or(SERVICE_TIMEOUT, |t| t.0),
    }
}

/// Whether a path lies in memory. What is no directory is: the targets of tests.
fn in_memory(path: &Path) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    rustix::fs::statfs(path).map_or(true, |s| s.f_type as u32 == TMPFS)
}
