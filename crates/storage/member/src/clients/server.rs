//! [`ClientServer`]: a node's side of the socket.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix_futex_sync::Mutex;
use terrace_format::Change;

use super::wire::{Address, Answer, Failure, MAX_CHANGES, PROTOCOL_VERSION, Request, receive, send};
use crate::{Member, Session};

/// A session whose connection has ended lives for this long: its client may connect again, and ask for an outcome.
const SESSION_GRACE: Duration = Duration::from_secs(60);
/// The interval at which the server checks whether it ends.
const STOP_POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// A request may wait for this long at most.
const MAX_PATIENCE: Duration = Duration::from_secs(3600);

/// Serves the processes of this machine until it is dropped. Changes under way then have unknown outcomes, and their clients ask again.
pub struct ClientServer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

struct Desk {
    member: Arc<Member>,
    /// Held for a moment only.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// The count of connections so far; a connection's number.
    connections: u64,
    /// Copies of the connections, which end them.
    streams: HashMap<u64, UnixStream>,
    sessions: HashMap<u64, Held>,
}

struct Held {
    /// Held during a request. A client that has connected again waits for its earlier request.
    session: Arc<Mutex<Session>>,
    /// The connection that used it last.
    connection: u64,
    /// The end of that connection.
    since: Option<Instant>,
}

impl ClientServer {
    /// Listens in a store's directory. Who may write there may connect. No other node uses the directory.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn start(member: Arc<Member>, dir: &Path) -> io::Result<ClientServer> {
        let address = Address::new(dir)?;
        let path = address.path();
        match fs::remove_file(&path) {
            // A node that was killed has left it.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&path)?;
        let mode = fs::metadata(dir)?.permissions().mode() & 0o666;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        listener.set_nonblocking(true)?;
        let desk = Arc::new(Desk { member, state: Mutex::default() });
        let (name, of_thread) = ("terrace-clients".to_owned(), desk.clone());
        let thread = thread::Builder::new().name(name).spawn(move || of_thread.accept(&listener, &address))?;
        Ok(ClientServer { desk, thread: Some(thread) })
    }
}

impl Drop for ClientServer {
    fn drop(&mut self) {
        self.desk.state.lock().is_stopping = true;
        self.desk.member.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn accept(self: &Arc<Desk>, listener: &UnixListener, address: &Address) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        while !self.state.lock().is_stopping {
            // An interrupted wait is a short one.
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&STOP_POLL_INTERVAL));
            self.end_orphans();
            threads.retain(|thread| !thread.is_finished());
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    tracing::warn!(%error, "a client could not connect to this node");
                    thread::sleep(Duration::from_millis(200));
                    continue;
                }
            };
            match self.clone().serve_in_thread(stream) {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::warn!(%error, "a client could not be served"),
            }
        }
        // Before the connections end: a client that connects again must not meet this server.
        if let Err(error) = fs::remove_file(address.path()) {
            tracing::warn!(%error, "the node's socket was not removed");
        }
        for stream in self.state.lock().streams.values() {
            // It has ended then, anyway.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in threads {
            // A thread that has panicked has printed why.
            let _ = thread.join();
        }
    }

    fn serve_in_thread(self: Arc<Desk>, stream: UnixStream) -> io::Result<JoinHandle<()>> {
        stream.set_nonblocking(false)?;
        let own = stream.try_clone()?;
        let number = {
            let mut state = self.state.lock();
            state.connections += 1;
            let number = state.connections;
            state.streams.insert(number, own);
            number
        };
        let desk = self.clone();
        let spawned = thread::Builder::new().name("terrace-client".into()).spawn(move || {
            if let Err(error) = desk.serve(number, stream)
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                tracing::debug!(%error, "the connection of a client ended");
            }
            desk.forget(number);
        });
        spawned.inspect_err(|_| self.forget(number))
    }

    /// Answers the requests of a connection until it ends.
    fn serve(&self, number: u64, mut stream: UnixStream) -> io::Result<()> {
        let (mut buffer, mut answers) = (Vec::new(), Vec::new());
        let mut is_welcome = false;
        loop {
            let answer = match receive(&mut stream, &mut buffer)? {
                Request::Hello { version, store } => match self.refuse(version, store) {
                    None => {
                        is_welcome = true;
                        Answer::Welcome
                    }
                    Some(reason) => Answer::Failed(Failure::Refused { reason }),
                },
                _ if !is_welcome => return Err(io::Error::other("a client did not say which store it means")),
                Request::End { session } => {
                    self.state.lock().sessions.remove(&session);
                    continue;
                }
                request => self.answer(number, request),
            };
            if self.state.lock().is_stopping {
                // It may be an outcome that is not known only because this node ends. The client asks the next one.
                return Ok(());
            }
            send(&mut stream, &mut answers, &answer)?;
        }
    }

    fn refuse(&self, version: u32, store: u64) -> Option<String> {
        let own = self.member.store();
        if version != PROTOCOL_VERSION {
            Some(format!("it speaks version {PROTOCOL_VERSION} and the client {version}; use one version of terrace"))
        } else if store != own {
            Some(format!("it serves the store {own:016x} and not {store:016x}; look at its --dir"))
        } else {
            None
        }
    }

    fn answer(&self, connection: u64, request: Request<Change>) -> Answer {
        let answer = match request {
            Request::Begin { patience } => self.member.begin(patience.min(MAX_PATIENCE)).map(|begun| {
                let (number, session) = (begun.number(), Arc::new(Mutex::new(begun)));
                self.state.lock().sessions.insert(number, Held { session, connection, since: None });
                Answer::Begun { session: number }
            }),
            Request::Change { changes, .. } if changes.len() > MAX_CHANGES => {
                let reason = format!("a request has {} changes, and at most {MAX_CHANGES} are allowed", changes.len());
                return Answer::Failed(Failure::Refused { reason });
            }
            Request::Change { session, first, changes, patience } => {
                let session = self.session(session, connection);
                let session = session.lock(); // see the field
                let carried_out = session.carry_out(first, &changes, patience.min(MAX_PATIENCE));
                return carried_out.map_or_else(|error| Answer::Failed(Failure::of_change(error)), Answer::Decided);
            }
            Request::CatchUp { patience } => self.member.catch_up(patience.min(MAX_PATIENCE)).map(|_| Answer::CaughtUp),
            Request::Claim { count, patience } => {
                self.member.claim_numbers(count, patience.min(MAX_PATIENCE)).map(|first| Answer::Claimed { first })
            }
            Request::Hello { .. } | Request::End { .. } => return Answer::Welcome,
        };
        answer.unwrap_or_else(|error| Answer::Failed(Failure::of_question(error)))
    }

    /// Returns a client's session. One that is not known was begun before this node was started again.
    fn session(&self, number: u64, connection: u64) -> Arc<Mutex<Session>> {
        let mut state = self.state.lock();
        let resume = || Arc::new(Mutex::new(self.member.resume(number)));
        let held = state.sessions.entry(number).or_insert_with(|| Held { session: resume(), connection, since: None });
        (held.connection, held.since) = (connection, None);
        held.session.clone()
    }

    fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        state.streams.remove(&number);
        for held in state.sessions.values_mut().filter(|held| held.connection == number) {
            held.since = Some(Instant::now());
        }
    }

    /// Ends the sessions whose clients have not come back.
    fn end_orphans(&self) {
        let is_over = |held: &Held| held.since.is_some_and(|since| since.elapsed() >= SESSION_GRACE);
        let over: Vec<Held> =
            self.state.lock().sessions.extract_if(|_, held| is_over(held)).map(|(_, held)| held).collect();
        // Outside the lock: the end of a session takes the member's.
        drop(over);
    }
}
