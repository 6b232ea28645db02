//! Services that OpenDAL speaks to, and calls of them.
//!
//! No line here knows which service it is. Each call is tried again where the service says that this may help, and ends
//! in an error where it hangs.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::time::Duration;

use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::{ErrorKind, Operator, OperatorRegistry};
use rustix_futex_sync::Mutex;
use tokio::runtime::{Handle, Runtime};

use crate::fork;

/// The blob that says whose target this is.
pub(super) const MARKER: &str = "terrace-target";
/// How often a call is tried again.
const RETRIES: usize = 2;
/// The wait before the first of these; it doubles.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A service and how to reach it.
#[derive(Clone, Debug)]
pub struct Service {
    /// OpenDAL's name for it.
    pub name: String,
    /// Handed to OpenDAL; `${NAME}` stands for a variable of the environment.
    pub options: BTreeMap<String, String>,
    /// The prefix or folder under which the target's blobs lie.
    pub root: String,
    /// How long a call may take, with all its retries.
    pub timeout: Duration,
}

/// Why targets of this service cannot be had, and what to do about it.
pub fn unavailable(service: &str) -> Option<String> {
    opendal::init_default_registry();
    let here = OperatorRegistry::get().schemes();
    if here.contains(service) {
        return None;
    }
    let mut here: Vec<String> = here.into_iter().collect();
    here.sort_unstable();
    let here = here.join(", ");
    Some(format!(
        "service {service:?} is not compiled in; the cargo feature services-{service} does that, if there is one ({here} can be had now)"
    ))
}

impl Service {
    pub(super) fn operator(&self) -> io::Result<Operator> {
        if let Some(reason) = unavailable(&self.name) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        opendal::install_default();
        let mut options = Vec::new();
        for (option, value) in &self.options {
            options.push((option.clone(), expand(option, value)?));
        }
        options.push(("root".into(), self.root.clone()));
        let scheme = self.name.clone();
        // Some services look for a runtime when they are made.
        let operator = run(async move { Operator::via_iter(scheme, options) })?;
        let retry = RetryLayer::new().with_max_times(RETRIES).with_min_delay(RETRY_AFTER);
        // The limit is on the outside, so that it holds for a call with all its retries. That is safe where nothing more
        // is asked of a reader, writer or lister that has failed.
        let limit = TimeoutLayer::new().with_timeout(self.timeout).with_io_timeout(self.timeout);
        Ok(operator.layer(retry).layer(limit))
    }

    /// Sees that the service can be reached and that no store has its target there yet.
    ///
    /// # Errors
    /// The service's words where it cannot be reached.
    pub fn probe(&self) -> io::Result<()> {
        match fetch(&self.operator()?, MARKER.into(), None) {
            Ok(mark) => Err(self.refuse(&mark)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(super) fn refuse(&self, mark: &[u8]) -> io::Error {
        let mark = String::from_utf8_lossy(mark);
        let of = mark.lines().next().unwrap_or_default();
        let reason = format!("{self} belongs to another store or target ({of}); give each its own path");
        io::Error::new(io::ErrorKind::AlreadyExists, reason)
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.root)
    }
}

/// An option's value, or what the environment holds for one such as `${NAME}`.
fn expand(option: &str, value: &str) -> io::Result<String> {
    let Some(name) = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return Ok(value.to_owned());
    };
    std::env::var(name).map_err(|_| {
        let reason = format!("option {option} is {value}, but the environment has no {name}; set it");
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

/// Runs a piece of work on the runtime that all object targets of the process share, started when first needed. The
/// caller may itself be on a runtime.
pub(super) fn run<T: Send + 'static>(work: impl Future<Output = opendal::Result<T>> + Send + 'static) -> io::Result<T> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // Nobody waits any more if this fails.
        let _ = send.send(work.await);
    });
    receive.recv().map_err(|_| io::Error::other("the service's client panicked"))?.map_err(|e| system(&e))
}

/// The runtime; a fork, in which the threads of the one that it inherited are not, starts another.
fn runtime() -> io::Result<Handle> {
    static RUNTIME: Mutex<Option<(u32, ManuallyDrop<Runtime>)>> = Mutex::new(None);
    let _held = fork::hold();
    let mut shared = RUNTIME.lock();
    let forks = fork::count();
    if let Some((_, runtime)) = shared.as_ref().filter(|(of, _)| *of == forks) {
        return Ok(runtime.handle().clone());
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_name("terrace-object").enable_all().build()?;
    let handle = runtime.handle().clone();
    *shared = Some((forks, ManuallyDrop::new(runtime)));
    Ok(handle)
}

/// The service's error, with its words, as one of the system's.
fn system(error: &opendal::Error) -> io::Error {
    let mut cause = error.source();
    let mut below = None;
    while let Some(e) = cause {
        below = below.or(e.downcast_ref::<io::Error>().map(io::Error::kind));
        cause = e.source();
    }
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        ErrorKind::ConfigInvalid => io::ErrorKind::InvalidInput,
        ErrorKind::Unsupported => io::ErrorKind::Unsupported,
        ErrorKind::RateLimited => io::ErrorKind::ResourceBusy,
        ErrorKind::RangeNotSatisfied => io::ErrorKind::UnexpectedEof,
        // The layer that ends what hangs has no kind of its own.
        _ if error.message().contains("timeout") => io::ErrorKind::TimedOut,
        _ => below.filter(|kind| !damage(*kind)).unwrap_or(io::ErrorKind::Other),
    };
    io::Error::new(kind, error.to_string())
}

/// Whether an error of this kind speaks of one frame; such a one below the service's means a broken connection.
fn damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

/// A blob's bytes, or a range of them.
pub(super) fn fetch(operator: &Operator, path: String, range: Option<std::ops::Range<u64>>) -> io::Result<Vec<u8>> {
    let operator = operator.clone();
    run(async move {
        let read = operator.read_with(&path);
        let bytes = match range {
            Some(range) => read.range(range).await?,
            None => read.await?,
        };
        Ok(bytes.to_vec())
    })
}
