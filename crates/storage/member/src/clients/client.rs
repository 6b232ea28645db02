//! [`Client`]: a process's way to the node of its machine.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Error as CatalogError, SharedLog, Verdict};
use terrace_format::Change;

use super::wire::{Address, Answer, Failure, MAX_CHANGES, PROTOCOL_VERSION, Request, receive, send};
use crate::error::{MemberError, Result};

/// The pause before a node that does not answer is tried again. It may just be starting.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// A node answers this long after a request's own time at the latest, unless it hangs.
const MAX_ANSWER_DELAY: Duration = Duration::from_secs(5);

/// A request that has waited for others of its process gets this time at least ...
const MIN_PATIENCE: Duration = Duration::from_secs(1);
/// ... and no more than this if the node did not answer them.
const PATIENCE_WITH_GONE: Duration = Duration::from_millis(100);

/// A process's way to the node of its machine. Threads may share it.
pub struct Client {
    address: Address,
    store: u64,
    patience: Duration,
    /// Held during a request for changes: they are carried out in the order in which they are asked for.
    changes: Mutex<Changes>,
    /// Whether the node did not answer the last request in time. Then others wait for a moment only: a caller with much to do gives up soon.
    /// Relaxed, as no data depends on it.
    is_gone: AtomicBool,
    /// Connections for other requests that wait for nothing. Held for a moment only.
    idle: Mutex<Vec<Connection>>,
}

/// The session of this process, and its connection.
#[derive(Default)]
struct Changes {
    connection: Option<Connection>,
    session: Option<u64>,
    /// The number of the session's last change.
    last: u64,
}

struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
}

/// Why a request has no answer.
enum Broken {
    /// The connection broke. The request may have been carried out.
    Connection(io::Error),
    /// The node has said why.
    Failed(Failure),
}

impl Client {
    /// Connects to the node whose store's directory this is. `patience` is the longest time that a request may take.
    ///
    /// # Errors
    /// [`MemberError::NoNode`] if none answers; [`MemberError::Refused`] if it has another version or another store.
    pub fn connect(dir: &Path, store: u64, patience: Duration) -> Result<Client> {
        let address = Address::new(dir).map_err(|cause| MemberError::NoNode { path: dir.to_owned(), cause })?;
        let (changes, idle) = (Mutex::default(), Mutex::default());
        let client = Client { address, store, patience, changes, is_gone: AtomicBool::new(false), idle };
        let until = Instant::now() + patience.min(MAX_ANSWER_DELAY);
        let first = client.connection(until).map_err(|broken| client.error_of(broken))?;
        client.idle.lock().push(first);
        Ok(client)
    }

    /// Has changes carried out in this order, each at most once, and returns their verdicts. This machine's catalog has them then.
    ///
    /// # Errors
    /// [`MemberError::Undecided`] if nobody knows whether they were carried out. After every other error, none was, except the first ones
    /// of more than 64.
    pub fn carry_out(&self, changes: &[&Change]) -> Result<Vec<Verdict>> {
        // Before the lock: those that wait for it wait for the node, too.
        let mut until = self.last_moment();
        let mut held = self.changes.lock();
        let mut verdicts = Vec::with_capacity(changes.len());
        for part in changes.chunks(MAX_CHANGES) {
            until = if self.is_gone() { self.last_moment() } else { until.max(Instant::now() + MIN_PATIENCE) };
            verdicts.extend(self.note(self.carry_out_part(&mut held, part, until))?);
            until = self.last_moment();
        }
        Ok(verdicts)
    }

    /// The time at which a request that begins now is given up.
    fn last_moment(&self) -> Instant {
        Instant::now() + if self.is_gone() { PATIENCE_WITH_GONE } else { self.patience }
    }

    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) // see the field
    }

    /// Notes that the node answers, or does not.
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => self.is_gone.store(false, Ordering::Relaxed), // see the field
            Err(MemberError::NoNode { .. }) => self.is_gone.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        result
    }

    fn carry_out_part(&self, held: &mut Changes, part: &[&Change], until: Instant) -> Result<Vec<Verdict>> {
        // Why it is not known whether an attempt was carried out.
        let mut unknown: Option<String> = None;
        let failed = loop {
            match self.attempt(held, part, until, &mut unknown) {
                Ok(verdicts) if verdicts.contains(&Verdict::NoSession) => {
                    // The node had not heard of this process for long, and has ended its session. So this attempt was not carried out.
                    held.session = None;
                    match unknown {
                        Some(reason) => return Err(MemberError::Undecided { reason }),
                        None => continue,
                    }
                }
                Ok(verdicts) => {
                    held.last += part.len() as u64;
                    if unknown.is_some() {
                        // The node may have been started again since. It knows nothing of the session until its next request.
                        held.end_session();
                    }
                    return Ok(verdicts);
                }
                Err(Broken::Connection(_)) if Instant::now() < until => thread::sleep(RETRY_PAUSE),
                Err(failed) => break failed,
            }
        };
        match &failed {
            Broken::Failed(Failure::Unknown { reason }) => drop(unknown.get_or_insert(reason.clone())),
            Broken::Connection(_) => self.is_gone.store(true, Ordering::Relaxed), // see the field
            Broken::Failed(_) => {}
        }
        match unknown {
            Some(reason) => {
                held.end_session();
                Err(MemberError::Undecided { reason })
            }
            None => Err(self.error_of(failed)),
        }
    }

    fn attempt(
        &self,
        held: &mut Changes,
        part: &[&Change],
        until: Instant,
        unknown: &mut Option<String>,
    ) -> std::result::Result<Vec<Verdict>, Broken> {
        let patience = until.saturating_duration_since(Instant::now());
        let mut connection = match held.connection.take() {
            Some(connection) => connection,
            None => self.connection(until)?,
        };
        let session = match held.session {
            Some(session) => session,
            None => match connection.ask(&Request::<Change>::Begin { patience }, until)? {
                Answer::Begun { session } => {
                    (held.session, held.last) = (Some(session), 0);
                    session
                }
                other => return Err(unexpected(&other)),
            },
        };
        let first = held.last + 1;
        let request = Request::Change { session, first, changes: part.to_vec(), patience };
        let answer = connection.ask(&request, until);
        match &answer {
            Err(Broken::Connection(error)) => *unknown = Some(format!("the connection to the node broke ({error})")),
            _ => held.connection = Some(connection),
        }
        match answer? {
            Answer::Decided(verdicts) if verdicts.len() == part.len() => Ok(verdicts),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks for something that may be asked for any number of times.
    fn ask(&self, request: &Request<Change>) -> Result<Answer> {
        self.note(self.ask_until(request, self.last_moment()))
    }

    fn ask_until(&self, request: &Request<Change>, until: Instant) -> Result<Answer> {
        loop {
            let idle = self.idle.lock().pop();
            let mut connection = match idle.map_or_else(|| self.connection(until), Ok) {
                Ok(connection) => connection,
                Err(broken) => return Err(self.error_of(broken)),
            };
            match connection.ask(request, until) {
                Ok(answer) => {
                    self.idle.lock().push(connection);
                    return Ok(answer);
                }
                Err(Broken::Connection(_)) if Instant::now() < until => thread::sleep(RETRY_PAUSE),
                Err(broken) => return Err(self.error_of(broken)),
            }
        }
    }

    /// Connects, as often as it takes.
    fn connection(&self, until: Instant) -> std::result::Result<Connection, Broken> {
        loop {
            let connect = || {
                let mut connection =
                    Connection { stream: UnixStream::connect(self.address.path())?, buffer: Vec::new() };
                let hello = Request::<Change>::Hello { version: PROTOCOL_VERSION, store: self.store };
                connection.ask(&hello, until).map(|_| connection)
            };
            match connect() {
                Err(Broken::Connection(_)) if Instant::now() < until => thread::sleep(RETRY_PAUSE),
                connected => return connected,
            }
        }
    }

    fn error_of(&self, broken: Broken) -> MemberError {
        match broken {
            Broken::Connection(cause) if cause.kind() == io::ErrorKind::WouldBlock => MemberError::NoNode {
                path: self.address.shown(),
                cause: io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it takes connections, but does not answer in time; is it stopped?",
                ),
            },
            Broken::Connection(cause) => MemberError::NoNode { path: self.address.shown(), cause },
            Broken::Failed(Failure::Silent) => MemberError::Silent { waited: self.patience },
            Broken::Failed(Failure::Unknown { reason }) => MemberError::Undecided { reason },
            Broken::Failed(Failure::TooLarge { bytes }) => {
                MemberError::TooLarge(terrace_order::TooLarge { bytes: bytes as usize })
            }
            Broken::Failed(Failure::Refused { reason }) => MemberError::Refused { reason },
        }
    }
}

impl Changes {
    /// Leaves the session. If the node does not hear of it, it ends the session because its connection has ended.
    fn end_session(&mut self) {
        let Some(session) = self.session.take() else { return };
        if let Some(connection) = &mut self.connection {
            // See above.
            let _ = send(&mut connection.stream, &mut connection.buffer, &Request::<Change>::End { session });
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.end_session();
    }
}

impl Connection {
    fn ask<C: serde::Serialize>(
        &mut self,
        request: &Request<C>,
        until: Instant,
    ) -> std::result::Result<Answer, Broken> {
        let longest = until.saturating_duration_since(Instant::now()) + MAX_ANSWER_DELAY;
        self.stream.set_read_timeout(Some(longest))?;
        self.stream.set_write_timeout(Some(longest))?;
        send(&mut self.stream, &mut self.buffer, request)?;
        match receive(&mut self.stream, &mut self.buffer)? {
            Answer::Failed(failure) => Err(Broken::Failed(failure)),
            answer => Ok(answer),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Connection(error)
    }
}

fn unexpected(answer: &Answer) -> Broken {
    Broken::Failed(Failure::Refused { reason: format!("it answers another question: {answer:?}") })
}

impl SharedLog for Client {
    fn carry_out(&self, changes: &[&Change]) -> terrace_catalog::Result<Vec<Verdict>> {
        Client::carry_out(self, changes).map_err(in_catalog)
    }

    fn claim_numbers(&self, count: u64) -> terrace_catalog::Result<u64> {
        match self.ask(&Request::Claim { count, patience: self.patience }).map_err(in_catalog)? {
            Answer::Claimed { first } => Ok(first),
            other => Err(in_catalog(self.error_of(unexpected(&other)))),
        }
    }

    fn catch_up(&self) -> terrace_catalog::Result<()> {
        self.ask(&Request::CatchUp { patience: self.patience }).map(drop).map_err(in_catalog)
    }
}

fn in_catalog(error: MemberError) -> CatalogError {
    match error {
        MemberError::Undecided { reason } => CatalogError::UnknownOutcome { reason },
        other => CatalogError::SharedLog { reason: other.to_string() },
    }
}
