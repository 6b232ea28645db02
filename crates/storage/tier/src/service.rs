//! Services that OpenDAL speaks to, and calls of them.
//!
//! No line here knows which service it is. Each call is tried again where the service says that this may help, and ends
//! in an error where it hangs.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::time::Duration;

use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::{ErrorKind, Operator, OperatorRegistry};
use rustix_futex_sync::Mutex;
use terrace_system::fork;
use tokio::runtime::{Handle, Runtime};

/// The blob that says whose target this is.
pub(super) const MARKER: &str = "terrace-target";
/// How often a call is tried again.
const RETRIES: usize = 2;
/// The wait before the first of these; it doubles.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// How long the end of the last client waits for connections to close.
const MAX_RUNTIME_END_WAIT: Duration = Duration::from_secs(5);

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
    pub(super) fn connect(&self) -> io::Result<Client> {
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
        let runtime = RuntimeUse::begin()?;
        // Some services look for a runtime when they are made.
        let operator = run(async move { Operator::via_iter(scheme, options) })?;
        let retry = RetryLayer::new().with_max_times(RETRIES).with_min_delay(RETRY_AFTER);
        // The limit is on the outside, so that it holds for a call with all its retries. That is safe where nothing more
        // is asked of a reader, writer or lister that has failed.
        let limit = TimeoutLayer::new().with_timeout(self.timeout).with_io_timeout(self.timeout);
        Ok(Client { operator: operator.layer(retry).layer(limit), _runtime: runtime })
    }

    /// Sees that the service can be reached and that no store has its target there yet.
    ///
    /// # Errors
    /// The service's words where it cannot be reached.
    pub fn probe(&self) -> io::Result<()> {
        let client = self.connect()?;
        match fetch(&client, MARKER.into()) {
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

/// OpenDAL's operator of a service, with the runtime that its connections need.
pub(super) struct Client {
    // Dropped before the runtime, which then ends the operator's connections.
    operator: Operator,
    _runtime: RuntimeUse,
}

impl Deref for Client {
    type Target = Operator;

    fn deref(&self) -> &Operator {
        &self.operator
    }
}

/// The runtime on which all clients of the process run, with the number of its users.
struct SharedRuntime {
    /// How many forks lie between the process that started it and the first. A fork has none of its threads.
    forks: u32,
    users: usize,
    // Dropped by hand: a fork must not wait for threads that it does not have.
    runtime: ManuallyDrop<Runtime>,
}

static RUNTIME: Mutex<Option<SharedRuntime>> = Mutex::new(None);

/// One use of the shared runtime. The last one ends it, and with it all connections: a service may hold more than
/// sockets, as SFTP does, which is spoken by `ssh` processes that would outlive this one.
pub(super) struct RuntimeUse {
    forks: u32,
    handle: Handle,
}

impl RuntimeUse {
    pub(super) fn begin() -> io::Result<RuntimeUse> {
        let _held = fork::hold();
        let forks = fork::count();
        let mut shared = RUNTIME.lock();
        if let Some(shared) = shared.as_mut().filter(|shared| shared.forks == forks) {
            shared.users += 1;
            return Ok(RuntimeUse { forks, handle: shared.runtime.handle().clone() });
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name("terrace-object").enable_all().build()?;
        let handle = runtime.handle().clone();
        *shared = Some(SharedRuntime { forks, users: 1, runtime: ManuallyDrop::new(runtime) });
        Ok(RuntimeUse { forks, handle })
    }
}

impl Drop for RuntimeUse {
    fn drop(&mut self) {
        let _held = fork::hold();
        if self.forks != fork::count() {
            return;
        }
        let mut shared = RUNTIME.lock();
        let Some(last) = shared.take_if(|shared| {
            shared.users -= 1;
            shared.users == 0
        }) else {
            return;
        };
        drop(shared);
        let runtime = ManuallyDrop::into_inner(last.runtime);
        // On a thread of its own, since the caller may be a task of another runtime, where waiting is forbidden.
        let end = move || runtime.shutdown_timeout(MAX_RUNTIME_END_WAIT);
        match std::thread::Builder::new().name("terrace-object-end".into()).spawn(end) {
            Ok(thread) => drop(thread.join()),
            Err(error) => tracing::warn!(%error, "connections to services are not closed"),
        }
    }
}

/// Runs a piece of work on the runtime of a living [`Client`]. The caller may itself be on a runtime.
pub(super) fn run<T: Send + 'static>(work: impl Future<Output = opendal::Result<T>> + Send + 'static) -> io::Result<T> {
    let runtime = RuntimeUse::begin()?;
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    runtime.handle.spawn(async move {
        // Nobody waits any more if this fails.
        let _ = send.send(work.await);
    });
    receive.recv().map_err(|_| io::Error::other("the service's client panicked"))?.map_err(|e| system(&e))
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
        _ if is_timeout(error) => io::ErrorKind::TimedOut,
        _ => below.filter(|kind| !damage(*kind)).unwrap_or(io::ErrorKind::Other),
    };
    io::Error::new(kind, error.to_string())
}

/// Whether the layer that ends what hangs made this error. It has no kind of its own.
fn is_timeout(error: &opendal::Error) -> bool {
    error.message().contains("timeout")
}

/// Whether an error of this kind speaks of one frame; such a one below the service's means a broken connection.
fn damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

/// A blob's bytes.
pub(super) fn fetch(operator: &Operator, path: String) -> io::Result<Vec<u8>> {
    let operator = operator.clone();
    run(async move { operator.read(&path).await.map(|bytes| bytes.to_vec()) })
}

/// A range of a blob's bytes; `RangeNotSatisfied` where the blob ends before the range does.
///
/// Each service answers to such a range in its own way, and some of these answers look like a failure of the service
/// (WebDAV), or like a lack of permission (WebHDFS). So the blob's length decides.
pub(super) async fn fetch_range(operator: &Operator, path: &str, range: Range<u64>) -> opendal::Result<Vec<u8>> {
    let end = range.end;
    let length = end.saturating_sub(range.start);
    let shorter = || opendal::Error::new(ErrorKind::RangeNotSatisfied, "the blob is shorter than its frame");
    let error = match operator.read_with(path).range(range).await {
        Ok(bytes) if bytes.len() as u64 == length => return Ok(bytes.to_vec()),
        Ok(_) => return Err(shorter()),
        Err(error) => error,
    };
    if !matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::PermissionDenied) || is_timeout(&error) {
        return Err(error);
    }
    match operator.stat(path).await {
        Ok(metadata) if metadata.content_length() < end => Err(shorter()),
        // Whatever else it is, the first error tells more.
        _ => Err(error),
    }
}
