//! Calls of services that OpenDAL supports.
//!
//! This code is the same for all services. A call is retried if the service says that this may help, and fails if it takes too
//! long.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::time::{Duration, SystemTime};

use futures::TryStreamExt as _;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::{ErrorKind, HttpTransporter, OperationContext, Operator, OperatorRegistry};
use rustix_futex_sync::Mutex;
use terrace_system::fork;
use tokio::runtime::{Handle, Runtime};

use crate::checked_ranges::CheckedRanges;
use crate::ssh_masters::{MasterArguments, end_unreachable};

/// The marker: the blob that names the owner of the target.
pub(super) const MARKER_BLOB: &str = "terrace-target";
/// The options that name what has the blobs, for services with several buckets.
const BUCKET_OPTIONS: [&str; 2] = ["bucket", "container"];
/// The most blobs that one call deletes.
pub(super) const DELETED_TOGETHER: usize = 1000;
/// The most retries of a call.
const MAX_RETRIES: usize = 2;
/// The wait before the first retry. It doubles for each further one.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The longest time that dropping the last client waits for connections to close.
const MAX_RUNTIME_END_WAIT: Duration = Duration::from_secs(5);

/// A service and how to reach it.
#[derive(Clone, Debug)]
pub struct Service {
    /// OpenDAL's name for it.
    pub name: String,
    /// The options for OpenDAL. `${NAME}` stands for a variable of the environment.
    pub options: BTreeMap<String, String>,
    /// The prefix or folder of the target's blobs.
    pub root: String,
    /// The longest time that a call may take, including all retries.
    pub timeout: Duration,
}

/// Returns why targets of this service are unavailable, and what to do about it. `None` if they are available.
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
        "service {service:?} is not compiled in; this program has {here}. Build it with the cargo feature services-{service}, if there is one, or use one of these"
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
        let masters = MasterArguments::of(&self.name, &options.iter().cloned().collect());
        options.push(("root".into(), self.root.clone()));
        let scheme = self.name.clone();
        let runtime = RuntimeUse::begin()?;
        runtime.add_masters(masters);
        // Some services need a runtime when they are made.
        let operator = run(async move { Operator::via_iter(scheme, options) })?;
        let retry = RetryLayer::new().with_max_times(MAX_RETRIES).with_min_delay(RETRY_AFTER);
        // The time limit is the outer layer, so that it covers a call with all its retries. This is safe because no reader,
        // writer or lister is used again after it has failed.
        let limit = TimeoutLayer::new().with_timeout(self.timeout).with_io_timeout(self.timeout);
        let checked = OperationContext::new().with_http_transport(HttpTransporter::new(CheckedRanges::default()));
        Ok(Client { operator: operator.with_context(checked).layer(retry).layer(limit), _runtime: runtime })
    }

    /// Checks that the service is reachable, and that no store has a target there.
    ///
    /// # Errors
    /// The service's error if it is unreachable. `AlreadyExists` if a store has a target there.
    pub fn probe(&self) -> io::Result<()> {
        let client = self.connect()?;
        match fetch(&client, MARKER_BLOB.into()) {
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
        match BUCKET_OPTIONS.iter().find_map(|option| self.options.get(*option)) {
            Some(bucket) => write!(f, "{}://{bucket}/{}", self.name, self.root.trim_start_matches('/')),
            None => write!(f, "{}:{}", self.name, self.root),
        }
    }
}

/// The value of an option. `${NAME}` is replaced by the variable of the environment.
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
    // Dropped before the runtime, because the operator's connections need the runtime.
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
    /// The number of forks between the first process and the one that started the runtime. A fork has none of its threads.
    forks: u32,
    users: usize,
    /// The `ssh` processes that may be left when the runtime ends.
    masters: Vec<MasterArguments>,
    // Dropped explicitly: a fork must not wait for threads that it does not have.
    runtime: ManuallyDrop<Runtime>,
}

/// Held while a user is added or removed, and while the runtime is started, under `fork::hold`: a fork during that time would
/// inherit the lock, and no thread that releases it. It is released before the runtime is shut down.
static SHARED_RUNTIME: Mutex<Option<SharedRuntime>> = Mutex::new(None);

/// A use of the shared runtime. Dropping the last one shuts the runtime down, and with it all connections. A connection may be
/// more than a socket: SFTP has `ssh` processes, which would outlive this process.
pub(super) struct RuntimeUse {
    forks: u32,
    handle: Handle,
}

impl RuntimeUse {
    pub(super) fn begin() -> io::Result<RuntimeUse> {
        let _held = fork::hold();
        let forks = fork::count();
        let mut shared = SHARED_RUNTIME.lock();
        if let Some(shared) = shared.as_mut().filter(|shared| shared.forks == forks) {
            shared.users += 1;
            return Ok(RuntimeUse { forks, handle: shared.runtime.handle().clone() });
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name("terrace-object").enable_all().build()?;
        let handle = runtime.handle().clone();
        *shared = Some(SharedRuntime { forks, users: 1, masters: Vec::new(), runtime: ManuallyDrop::new(runtime) });
        Ok(RuntimeUse { forks, handle })
    }

    /// Names `ssh` processes that are ended with the runtime, if their connections did not end them.
    fn add_masters(&self, masters: Option<MasterArguments>) {
        let _held = fork::hold();
        let mut shared = SHARED_RUNTIME.lock();
        let shared = shared.as_mut().filter(|shared| shared.forks == self.forks);
        if let Some((shared, masters)) = shared.zip(masters)
            && !shared.masters.contains(&masters)
        {
            shared.masters.push(masters);
        }
    }
}

impl Drop for RuntimeUse {
    fn drop(&mut self) {
        let _held = fork::hold();
        if self.forks != fork::count() {
            return;
        }
        let mut shared = SHARED_RUNTIME.lock();
        let Some(last) = shared.take_if(|shared| {
            shared.users -= 1;
            shared.users == 0
        }) else {
            return;
        };
        drop(shared);
        let runtime = ManuallyDrop::into_inner(last.runtime);
        // On a thread of its own, because the caller may be a task of another runtime, where waiting is forbidden.
        let end = move || {
            runtime.shutdown_timeout(MAX_RUNTIME_END_WAIT);
            // After the runtime, because its tasks start such processes and remove their folders.
            end_unreachable(&last.masters);
        };
        match std::thread::Builder::new().name("terrace-object-end".into()).spawn(end) {
            Ok(thread) => drop(thread.join()),
            Err(error) => {
                tracing::warn!(%error, "connections to services stay open until this process ends: no thread could be started to close them")
            }
        }
    }
}

/// Runs a future on the shared runtime, and waits for its result. The caller may itself be on a runtime.
pub(super) fn run<T: Send + 'static>(work: impl Future<Output = opendal::Result<T>> + Send + 'static) -> io::Result<T> {
    let runtime = RuntimeUse::begin()?;
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    runtime.handle.spawn(async move {
        // This fails only if the caller is gone, and then nobody needs the result.
        let _ = send.send(work.await);
    });
    receive.recv().map_err(|_| io::Error::other("the service's client panicked"))?.map_err(|e| system(&e))
}

/// Converts a service's error to one of the system's, with the same message.
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

/// Returns whether the timeout layer made this error. OpenDAL has no kind for it.
fn is_timeout(error: &opendal::Error) -> bool {
    error.message().contains("timeout")
}

/// Returns whether an error of this kind would mean a bad frame. As the cause of a service's error it means a broken connection.
fn damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

/// Reads a blob.
pub(super) fn fetch(operator: &Operator, path: String) -> io::Result<Vec<u8>> {
    let operator = operator.clone();
    run(async move { operator.read(&path).await.map(|bytes| bytes.to_vec()) })
}

/// Writes a blob that is not there yet. Returns false, and changes nothing, if it is there.
pub(super) fn write_new(operator: &Operator, path: String, bytes: Vec<u8>) -> io::Result<bool> {
    let operator = operator.clone();
    run(async move {
        let has_condition = operator.info().capability().write_with_if_not_exists;
        // Elsewhere another writer may come between the question and the write. The owner's mark keeps others away.
        if !has_condition && operator.exists(&path).await? {
            return Ok(false);
        }
        match operator.write_with(&path, bytes).if_not_exists(has_condition).await {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists) => Ok(false),
            Err(e) => Err(e),
        }
    })
}

/// Lists the names of the blobs below `folder`, in order. `folder` ends with `/`.
pub(super) fn list_names(operator: &Operator, folder: String) -> io::Result<Vec<String>> {
    let operator = operator.clone();
    let listed = run(async move {
        let entries = operator.lister_with(&folder).recursive(true).await?;
        entries.map_ok(|entry| entry.path().to_owned()).try_collect::<Vec<String>>().await
    });
    match listed {
        // Nothing was ever written there.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => {
            let mut names = listed?;
            names.retain(|name| !name.ends_with('/'));
            names.sort_unstable();
            Ok(names)
        }
    }
}

/// Deletes blobs. Missing ones are no error.
pub(super) fn delete_names(operator: &Operator, names: Vec<String>) -> io::Result<()> {
    let operator = operator.clone();
    run(async move { operator.delete_iter(names).await })
}

/// Deletes the blobs below `folder`, and its folders where the service has folders.
pub(super) fn delete_below(operator: &Operator, folder: String) -> io::Result<()> {
    let names = list_names(operator, folder.clone())?;
    let mut folders: Vec<String> =
        names.iter().filter_map(|name| Some(format!("{}/", name.rsplit_once('/')?.0))).collect();
    folders.dedup();
    for some in names.chunks(DELETED_TOGETHER) {
        delete_names(operator, some.to_vec())?;
    }
    if operator.info().capability().create_dir {
        folders.retain(|below| *below != folder);
        folders.push(folder);
        delete_names(operator, folders)?;
    }
    Ok(())
}

/// Returns when a blob was written, if the service tells.
pub(super) fn modified(operator: &Operator, path: String) -> io::Result<Option<SystemTime>> {
    let operator = operator.clone();
    run(async move { Ok(operator.stat(&path).await?.last_modified().map(SystemTime::from)) })
}

/// Reads a range of a blob. `RangeNotSatisfied` if the blob ends before the range does.
///
/// Services answer such a range in different ways, and some of the answers look like a failure of the service (WebDAV), or
/// like a lack of permission (WebHDFS). So the blob's length decides.
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
        // In all other cases the first error tells more.
        _ => Err(error),
    }
}
