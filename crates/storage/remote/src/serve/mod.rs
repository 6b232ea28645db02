//! The serving side: a thread for each connection, which waits for the client and for the disk.

mod answers;
mod target;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, poll};
use rustix_futex_sync::{Condvar, Mutex};
use terrace_tier::Ids;
use tokio_rustls::TlsAcceptor;

pub use target::ServedTarget;

use crate::buffers::Buffers;
use crate::options::is_target_name;
use crate::secret::Secret;
use crate::socket::{Socket, Stream};
use crate::tls::Identity;
use answers::Answers;
use target::Served;

/// The most connections at a time. More are closed at once, and clients try again later.
const MAX_CONNECTIONS: usize = 512;
/// How long a client may take to prove that it knows the secret.
const MAX_STRANGER_TIME: Duration = Duration::from_secs(10);
/// How long a known client may take for a request.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(60);
/// How long a known client may leave a connection unused.
const MAX_IDLE_TIME: Duration = Duration::from_secs(600);
/// How long connections may take to end when the server ends.
const MAX_END_TIME: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_HEADERS: usize = 32;

/// A request beside those about targets, of a client that knows the secret.
pub struct HandlerRequest<'a> {
    /// The method, such as `POST`.
    pub method: &'a str,
    /// The path, as it was sent.
    pub path: &'a str,
    /// The parameters, as they were sent.
    pub query: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Answers the requests of clients that are not about targets.
pub trait Handler: Send + Sync {
    /// The longest body of a request.
    fn max_body_bytes(&self) -> usize;

    /// Answers a request by a status of HTTP and a text. None if there is nothing at its path.
    fn answer(&self, request: &HandlerRequest<'_>) -> Option<(u16, String)>;
}

/// The settings of a server.
pub struct ServerOptions {
    /// The address; port 0 chooses a free one.
    pub listen: SocketAddr,
    /// The secret of the clients.
    pub secret: Secret,
    /// The certificate. Without one, HTTP is plain, and the address must be this machine's own.
    pub identity: Option<Identity>,
    /// The directories.
    pub targets: Vec<ServedTarget>,
    /// Numbers for new segments, if the node has some that no other node has. Otherwise clients send them.
    pub numbers: Option<Arc<dyn Ids>>,
    /// Answers at other paths than `/targets`.
    pub handler: Option<Arc<dyn Handler>>,
}

/// A running server of targets.
pub struct Server {
    address: SocketAddr,
    answers: Arc<Answers>,
    connections: Arc<Connections>,
    /// Closing it ends the thread that accepts.
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// `InvalidInput` if the options cannot be right. An error of the system if it refuses the address.
    pub fn begin(options: ServerOptions) -> io::Result<Server> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let ServerOptions { listen, secret, identity, targets, numbers, handler } = options;
        if identity.is_none() && !listen.ip().is_loopback() {
            return Err(invalid(format!("{listen} can be reached from other machines, which needs TLS")));
        }
        let mut served = BTreeMap::new();
        for target in targets {
            let name = target.name.clone();
            if !is_target_name(&name) {
                return Err(invalid(format!("a target cannot be called {name:?}; use a-z, 0-9 and -")));
            }
            if served.insert(name.clone(), Served::new(target, numbers.clone())).is_some() {
                return Err(invalid(format!("two targets are called {name:?}")));
            }
        }
        let listener = TcpListener::bind(listen)
            .map_err(|error| io::Error::new(error.kind(), format!("listening on {listen}: {error}")))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let answers = Arc::new(Answers { targets: served, secret, buffers: Buffers::default(), handler });
        let connections = Arc::new(Connections::default());
        let (stop, stopped) = UnixStream::pair()?;
        let accept = Accept { listener, stopped, identity, answers: answers.clone(), connections: connections.clone() };
        let thread = thread::Builder::new().name("terrace-serve".into()).spawn(move || accept.run())?;
        Ok(Server { address, answers, connections, stop, thread })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the requests that have arrived, makes everything durable, and ends.
    pub fn end(self) {
        drop(self.stop);
        // A panic there has been printed.
        let _ = self.thread.join();
        self.connections.end();
        for target in self.answers.targets.values() {
            target.end();
        }
    }
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    /// Held for one insertion, removal or walk, which shuts sockets down: that never waits.
    open: Mutex<HashMap<u64, Arc<Socket>>>,
    closed: Condvar,
}

impl Connections {
    /// Ends all connections: nothing more is received, and what was asked is answered.
    fn end(&self) {
        let open = self.open.lock();
        for socket in open.values() {
            // It may be closed already.
            let _ = socket.stream().shutdown(Shutdown::Read);
        }
        let (left, _) = self.closed.wait_timeout_while(open, MAX_END_TIME, |open| !open.is_empty());
        for socket in left.values() {
            // As above.
            let _ = socket.stream().shutdown(Shutdown::Both);
        }
    }
}

/// The thread that accepts connections.
struct Accept {
    listener: TcpListener,
    stopped: UnixStream,
    identity: Option<Identity>,
    answers: Arc<Answers>,
    connections: Arc<Connections>,
}

impl Accept {
    fn run(self) {
        for number in 0.. {
            let mut both = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
            if poll(&mut both, None).is_err() {
                continue;
            }
            if !both[1].revents().is_empty() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.begin(number, stream) {
                        tracing::warn!(%error, "a connection cannot be served");
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    thread::sleep(ACCEPT_RETRY_DELAY);
                }
            }
        }
    }

    fn begin(&self, number: u64, stream: TcpStream) -> io::Result<()> {
        let socket = Socket::new(stream)?;
        let mut open = self.connections.open.lock();
        if open.len() >= MAX_CONNECTIONS {
            return Err(io::Error::other("there are too many"));
        }
        open.insert(number, socket.clone());
        drop(open);
        let (answers, connections) = (self.answers.clone(), self.connections.clone());
        let acceptor = self.identity.as_ref().map(|identity| TlsAcceptor::from(identity.server_config()));
        let closing = Closing { connections: connections.clone(), number };
        let run = move || {
            let _closing = closing;
            if let Err(error) = converse(socket, acceptor, &answers) {
                tracing::debug!(%error, "a connection broke");
            }
        };
        // If no thread can be made, the closure is dropped, and with it the connection.
        thread::Builder::new().name("terrace-conn".into()).spawn(run).map(drop)
    }
}

/// Takes a connection off the list when its thread ends, even by a panic.
struct Closing {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.number);
        self.connections.closed.notify_all();
    }
}

/// Answers the requests of a connection until it ends.
fn converse(socket: Arc<Socket>, acceptor: Option<TlsAcceptor>, answers: &Answers) -> io::Result<()> {
    // No lock is held during I/O; only this thread uses it.
    let deadline = Mutex::new(Instant::now() + MAX_STRANGER_TIME);
    let set = &|time: Duration| *deadline.lock() = Instant::now() + time;
    let service = service_fn(|request: Request<Incoming>| async move {
        let is_known = answers.allow(request.headers());
        let answer = answers.answer(request, || set(MAX_REQUEST_TIME)).await;
        if is_known {
            set(MAX_IDLE_TIME);
        }
        Ok::<_, Infallible>(answer)
    });
    let mut builder = http1::Builder::new();
    builder.max_headers(MAX_HEADERS);
    // A request that has arrived is answered although nothing more is received, as when the server ends.
    builder.half_close(true);
    let stream = Stream(socket.clone());
    let served = async {
        match acceptor {
            None => builder.serve_connection(TokioIo::new(stream), service).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await,
                Err(error) => {
                    tracing::debug!(%error, "a client does not speak TLS, or does not accept the certificate");
                    Ok(())
                }
            },
        }
    };
    socket.drive(|| *deadline.lock(), served)?.map_err(io::Error::other)
}
