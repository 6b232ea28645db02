//! The engine's errors. Each message says what failed, where, and what to do next.

use std::path::PathBuf;

use terrace_format::KeyError;
use terrace_system::reserve::FullDisk;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way in which an operation of the engine can fail.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No object has this key.
    #[error("no object has the key {key:?}; `terrace ls` lists those that exist")]
    NotFound {
        /// The key that was asked for, printed lossily.
        key: String,
    },
    /// A key that no object may have.
    #[error("the key {key:?} is not allowed: {reason}; write keys as paths, such as data/a.h5")]
    BadKey {
        /// The key as given, printed lossily.
        key: String,
        /// The reason.
        reason: &'static str,
    },
    /// A flat key is too long.
    #[error("the key {key:?} has {length} bytes, but a flat key has at most {limit} bytes; use a shorter key")]
    KeyTooLong {
        /// The key as given, printed lossily.
        key: String,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A key below `.terrace`, which is reserved for the store.
    #[error("{key:?} is the store's own: nothing may be written, renamed or removed below .terrace; use another key")]
    Reserved {
        /// The key as given, printed lossily.
        key: String,
    },
    /// An offset or length is beyond the limit for objects.
    #[error(
        "{key:?}: byte {end} is beyond the end of any object: an object has at most 2^63 - 1 bytes; check the offset and the length"
    )]
    TooLarge {
        /// The key, printed lossily.
        key: String,
        /// The end of the range, as far as a number of 64 bits can hold it.
        end: u64,
    },
    /// A key at or below the prefix of an origin, which is read-only.
    #[error("{key:?} is a file of the origin {origin:?}, which is read-only; use a key outside of that prefix")]
    ReadOnlyOrigin {
        /// The key as given, printed lossily.
        key: String,
        /// The origin's prefix.
        origin: String,
    },
    /// A file was changed or removed at its origin, and the bytes that were asked for are not cached.
    #[error("{key:?} was changed at the origin {origin:?} since it was opened; open it again")]
    ChangedAtOrigin {
        /// The object's key, printed lossily.
        key: String,
        /// The origin's prefix.
        origin: String,
    },
    /// An origin does not answer, or refuses.
    #[error("{context} at the origin {origin:?} ({url}): {cause}")]
    Origin {
        /// The operation and the key.
        context: String,
        /// The origin's prefix.
        origin: String,
        /// Its directory or URL.
        url: String,
        /// The system's or the service's error. The message of this error ends with it, so it is not its `source()`.
        cause: std::io::Error,
    },
    /// A change was refused because the object is not as expected.
    #[error("{key:?} was not changed: {reason}")]
    Conflict {
        /// The object's key, printed lossily.
        key: String,
        /// The expectation that failed, and advice.
        reason: String,
    },
    /// An upload of several parts is not there.
    #[error("there is no upload {upload}: it was completed or aborted, or has expired; begin another one")]
    NoUpload {
        /// The upload, as text.
        upload: String,
    },
    /// An upload cannot be completed with the parts that were named.
    #[error("part {number} of upload {upload}: {reason}")]
    BadPart {
        /// The upload, as text.
        upload: String,
        /// The part's number.
        number: u32,
        /// The defect, and what to do.
        reason: &'static str,
    },
    /// The object was replaced after a part of its bytes had been returned.
    #[error("{key:?} was replaced while it was read; read it again")]
    Replaced {
        /// The object's key, printed lossily.
        key: String,
    },
    /// No replica of an extent could be read.
    #[error("{key:?}: no good replica of bytes {start}..{end}; tried {tried}; {}", advise_read(*.is_lost, *.is_changed), end = start + length)]
    Unreadable {
        /// The object's key, printed lossily.
        key: String,
        /// The first byte of the extent.
        start: u64,
        /// The extent's length in bytes.
        length: u64,
        /// Each replica that was tried, with its error.
        tried: String,
        /// Whether all replicas are bad or missing. Otherwise some could not be asked now, or `is_changed`.
        is_lost: bool,
        /// Whether no replica is away, but one is in an adopted file that its owner has changed since.
        is_changed: bool,
    },
    /// No tier has room for the bytes.
    #[error("no space: {tiers}")]
    NoSpace {
        /// Each tier with its use and state, or the disk that is full, and advice.
        tiers: String,
    },
    /// The configuration cannot be used.
    #[error("configuration: {0}")]
    Config(String),
    /// The options that an object keeps are not understood.
    #[error(
        "{key:?}: the options that it was written with are not understood ({reason}); use the version of Terrace that wrote it, or put it again"
    )]
    KeptOptions {
        /// The object's key, printed lossily.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The directory holds no store, or one that cannot be opened.
    #[error("{path}: {reason}", path = path.display())]
    Store {
        /// The store's directory.
        path: PathBuf,
        /// Why it cannot be opened, and advice.
        reason: String,
    },
    /// The catalog (LMDB) failed.
    #[error("catalog: {0}")]
    Catalog(String),
    /// The node of this machine, or the log that it shares with other nodes, does not answer or refuses. Nothing was changed.
    #[error("{reason}")]
    SharedLog {
        /// The trouble, and what to do.
        reason: String,
    },
    /// The node of a target has begun again since bytes were written to it, and may have lost them. Nothing was changed.
    #[error("the node that holds the written bytes has begun again, and may have lost them; write them again")]
    Stale,
    /// Nobody knows whether a change was carried out, because the node or the shared log did not answer.
    #[error("it is not known whether the change was carried out: {reason}; look whether it was before you repeat it")]
    UnknownOutcome {
        /// The trouble.
        reason: String,
    },
    /// A node that is to leave the store holds bytes that are nowhere else, and does not answer.
    #[error(
        "node {node:?} does not answer and holds the only replicas of {objects} objects ({bytes} bytes), such as {first:?}; start it again, or lose them with --force"
    )]
    OnlyReplicas {
        /// The node's name.
        node: String,
        /// The number of objects with such bytes.
        objects: u64,
        /// The number of bytes.
        bytes: u64,
        /// One of the objects.
        first: String,
    },
    /// A record of the commit log or the catalog does not decode.
    #[error("{what} is damaged: {reason}; `terrace rebuild` makes a new catalog from the log")]
    Damaged {
        /// Which record.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The commit log lacks commits that it had, or the last commit of the catalog.
    #[error("the commit log is damaged, lost, or older than it was (nothing was changed): {0}")]
    LogDamaged(String),
    /// The bytes to be discarded exceed the limit, so a mistake is likely.
    #[error(
        "{what}: {bytes} of {of_bytes} bytes seem unused ({why}). Because this is much, nothing was removed; check that nothing is missing, then `terrace prune --force` removes them"
    )]
    TooMuch {
        /// The data to be discarded.
        what: String,
        /// Why it seems to be unused.
        why: String,
        /// Its size in bytes.
        bytes: u64,
        /// The size in bytes of all data there.
        of_bytes: u64,
    },
    /// Replicas were still pending when the time was up.
    #[error("{owed} {} still pending after {seconds} s; {}", if *.owed == 1 { "replica is" } else { "replicas are" }, advise_owed(*.is_full, .read_only.as_deref(), .lost.as_deref()))]
    StillOwed {
        /// Number of pending replicas.
        owed: u64,
        /// Seconds waited.
        seconds: u64,
        /// Whether a tier for some of them is full.
        is_full: bool,
        /// The name of a tier for some of them that can be read only.
        read_only: Option<String>,
        /// The key of an object for one of them whose bytes no replica has any more.
        lost: Option<String>,
    },
    /// The system refused an operation on a file.
    #[error("{context}: {cause}")]
    Io {
        /// The operation and its file.
        context: String,
        /// The system's error. The message of this error ends with it, so it is not its `source()`.
        cause: std::io::Error,
    },
}

fn advise_read(is_lost: bool, is_changed: bool) -> &'static str {
    match (is_lost, is_changed) {
        (true, _) => "`terrace repair` replaces bad replicas and lists what is lost",
        (false, true) => {
            "`terrace adopt` takes the file as it is now, with --checksum if its size and time are as they were"
        }
        (false, false) => "read it again once what is away is back; `terrace status` shows what is",
    }
}

fn advise_owed(is_full: bool, read_only: Option<&str>, lost: Option<&str>) -> String {
    match (lost, read_only) {
        (Some(key), _) => format!("no good replica is left of bytes of {key}: put it again, or remove it"),
        (None, Some(tier)) => format!("the file system of tier {tier} is read-only: make it writable again"),
        (None, None) if is_full => {
            "`terrace status` shows which tier is full, and `terrace health` which one has too little room".to_owned()
        }
        (None, None) => "`terrace status` shows which tier is slow or away".to_owned(),
    }
}

impl Error {
    /// Wraps an I/O error with the operation and its file.
    pub(crate) fn io(context: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let context = context.into();
        move |cause| Error::Io { context, cause }
    }

    /// Returns the system's error, if this is one.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Error::Io { cause, .. } => Some(cause),
            _ => None,
        }
    }

    pub(crate) fn not_found(key: &[u8]) -> Error {
        Error::NotFound { key: terrace_format::key::show(key) }
    }
}

impl FullDisk for Error {
    fn io_error(&self) -> Option<&std::io::Error> {
        Error::io_error(self)
    }

    fn no_space(reason: String) -> Error {
        Error::NoSpace { tiers: reason }
    }
}

impl From<terrace_catalog::Error> for Error {
    fn from(error: terrace_catalog::Error) -> Self {
        use terrace_catalog::Error as Cause;
        match error {
            Cause::Conflict { key, reason } => Error::Conflict { key, reason },
            Cause::NotFound { key } => Error::NotFound { key },
            Cause::Unusable { path, reason } => Error::Store { path, reason },
            Cause::NoSpace(tiers) => Error::NoSpace { tiers },
            Cause::Lmdb(reason) => Error::Catalog(reason),
            Cause::Damaged { what, reason } => Error::Damaged { what, reason },
            Cause::LogDamaged(reason) => Error::LogDamaged(reason),
            Cause::OutOfOrder { .. } => Error::LogDamaged(error.to_string()),
            Cause::Io { context, cause } => Error::Io { context, cause },
            Cause::SharedLog { reason } => Error::SharedLog { reason },
            Cause::UnknownOutcome { reason } => Error::UnknownOutcome { reason },
            Cause::Stale => Error::Stale,
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Bad { key, reason } => Error::BadKey { key, reason },
            KeyError::TooLong { key, length, limit } => Error::KeyTooLong { key, length, limit },
            KeyError::TooLarge { key, end } => Error::TooLarge { key, end },
        }
    }
}
