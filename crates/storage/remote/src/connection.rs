//! Requests to a node, over a few connections that stay open.

use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustix_futex_sync::Mutex;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::options::Options;
use crate::secret::Secret;
use crate::socket::{Socket, Stream};
use crate::tls::NODE_NAME;
use crate::wire::{ERROR_HEADER, MAX_ANSWER_BYTES, NUMBER_NEEDED, OWNER_HEADER, error_kind};

/// The most connections that wait for their next request.
const MAX_IDLE_CONNECTIONS: usize = 16;
/// The longest check of a target's marker, which takes no time on a node that works.
const MAX_CHECK_TIME: Duration = Duration::from_secs(2);
/// The most of an error's text.
const MAX_ERROR_BYTES: usize = 4096;

/// A failed request.
pub enum Failure {
    /// An append needs a number for a new segment.
    NumberNeeded,
    /// Anything else.
    Error(io::Error),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        match failure {
            Failure::NumberNeeded => io::Error::new(io::ErrorKind::NotConnected, "the node answered something else"),
            Failure::Error(error) => error,
        }
    }
}

/// The place for the body of an answer.
pub enum Fill<'a> {
    /// A body of exactly this length.
    Slice(&'a mut [u8]),
    /// A body of any length up to a limit.
    Vec(&'a mut Vec<u8>),
}

/// A node, for all threads of a process.
pub struct Node {
    options: Options,
    secret: Secret,
    /// Connections that no thread uses. The lock is held for one push or pop, never during I/O.
    idle: Mutex<Vec<Connection>>,
    owner: String,
}

impl Node {
    /// Reads the secret. Nothing is sent yet.
    ///
    /// # Errors
    /// As [`Secret::read`].
    pub fn new(options: Options, owner: String) -> io::Result<Node> {
        let secret = Secret::read(Path::new(&options.secret))?;
        Ok(Node { options, secret, idle: Mutex::default(), owner })
    }

    /// Sends a request about the target: `path` follows its name. Returns the headers of the answer, and fills `into` with its body.
    pub fn ask(&self, method: Method, path: &str, body: Bytes, into: &mut Fill<'_>) -> Result<HeaderMap, Failure> {
        self.ask_until(Instant::now() + self.options.timeout, method, path, body, into)
    }

    /// Asks for the target's marker. A node that hangs does not hold up a process that opens the store for as long as other requests may
    /// take.
    pub fn ask_for_marker(&self, answer: &mut Vec<u8>) -> Result<HeaderMap, Failure> {
        let deadline = Instant::now() + self.options.timeout.min(MAX_CHECK_TIME);
        self.ask_until(deadline, Method::GET, "/marker", Bytes::new(), &mut Fill::Vec(answer))
    }

    fn ask_until(
        &self,
        deadline: Instant,
        method: Method,
        path: &str,
        body: Bytes,
        into: &mut Fill<'_>,
    ) -> Result<HeaderMap, Failure> {
        let request = || {
            let uri = format!("/targets/{}{path}", self.options.target);
            let built = Request::builder()
                .method(method.clone())
                .uri(uri)
                .header(HOST, &self.options.host)
                .header(AUTHORIZATION, self.secret.header())
                .header(OWNER_HEADER, &self.owner)
                .body(Full::new(body.clone()));
            built.map_err(|error| Failure::Error(io::Error::new(io::ErrorKind::InvalidInput, error)))
        };
        // The node may have closed a connection that was idle. All requests may be repeated: an append that is repeated leaves a frame
        // that nothing names.
        let reused = self.idle.lock().pop();
        if let Some(mut connection) = reused {
            match connection.ask(request()?, deadline, into) {
                Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
                answered => return self.receive(connection, answered, into),
            }
        }
        let mut connection = Connection::open(&self.options, deadline).map_err(|error| self.fail(error))?;
        let answered = connection.ask(request()?, deadline, into);
        self.receive(connection, answered, into)
    }

    fn receive(
        &self,
        connection: Connection,
        answered: io::Result<Answer>,
        into: &mut Fill<'_>,
    ) -> Result<HeaderMap, Failure> {
        let answer = answered.map_err(|error| self.fail(error))?;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS && connection.is_open() {
            idle.push(connection);
        }
        drop(idle);
        let Some((status, text)) = answer.refusal else {
            return match into {
                Fill::Slice(slice) if answer.length != slice.len() => {
                    Err(self.fail(io::Error::other("the answer has another length")))
                }
                _ => Ok(answer.headers),
            };
        };
        let host = &self.options.host;
        Err(match answer.headers.get(ERROR_HEADER).and_then(|name| name.to_str().ok()) {
            Some(NUMBER_NEEDED) => Failure::NumberNeeded,
            Some(name) => Failure::Error(io::Error::new(error_kind(name), format!("{host}: {text}"))),
            None => {
                let reason = format!("{host} answered {status}: {text}; are address and secret those of its node?");
                Failure::Error(io::Error::new(io::ErrorKind::NotConnected, reason))
            }
        })
    }

    /// A broken connection is never damage, whatever the system or the library calls it.
    fn fail(&self, error: io::Error) -> Failure {
        let (kind, what) = match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => (io::ErrorKind::TimedOut, "no answer in time"),
            _ => (io::ErrorKind::ConnectionAborted, "the connection failed"),
        };
        Failure::Error(io::Error::new(kind, format!("{}: {what}: {error}", self.options.host)))
    }
}

/// An answer whose body was read to its end.
struct Answer {
    headers: HeaderMap,
    length: usize,
    /// The status and the text of an answer that is no success.
    refusal: Option<(u16, String)>,
}

/// The work of a connection: it moves bytes while it is polled.
type Work = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// One connection.
struct Connection {
    socket: Arc<Socket>,
    sender: SendRequest<Full<Bytes>>,
    /// None once the connection has ended.
    work: Option<Work>,
}

impl Connection {
    fn open(options: &Options, deadline: Instant) -> io::Result<Connection> {
        let mut last = io::Error::new(io::ErrorKind::NotConnected, "no address, or none of this machine without TLS");
        for address in options.addresses()? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return Connection::begin(Socket::new(stream)?, options, deadline),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn begin(socket: Arc<Socket>, options: &Options, deadline: Instant) -> io::Result<Connection> {
        let stream = Stream(socket.clone());
        let begin = async {
            let (sender, work): (_, Work) = match &options.tls {
                None => {
                    let (sender, work) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
                    (sender, Box::pin(work))
                }
                Some(config) => {
                    let name = ServerName::try_from(NODE_NAME).map_err(io::Error::other)?;
                    let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
                    let (sender, work) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
                    (sender, Box::pin(work))
                }
            };
            Ok::<_, io::Error>((sender, work))
        };
        let (sender, work) = socket.drive(|| deadline, begin)??;
        Ok(Connection { socket, sender, work: Some(work) })
    }

    fn is_open(&self) -> bool {
        self.work.is_some() && !self.sender.is_closed()
    }

    fn ask(&mut self, request: Request<Full<Bytes>>, deadline: Instant, into: &mut Fill<'_>) -> io::Result<Answer> {
        let Connection { socket, sender, work } = self;
        if let Fill::Vec(vec) = into {
            // An answer that was cut may have left a part.
            vec.clear();
        }
        let ask = async {
            sender.ready().await.map_err(io::Error::other)?;
            let (head, mut body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
            let is_refusal = !head.status.is_success();
            let (mut length, mut text) = (0, Vec::new());
            while let Some(frame) = body.frame().await {
                let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() else { continue };
                match into {
                    _ if is_refusal => {
                        let room = MAX_ERROR_BYTES.saturating_sub(text.len());
                        text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    }
                    Fill::Slice(slice) => {
                        let part = slice.get_mut(length..length + bytes.len());
                        part.ok_or_else(|| io::Error::other("the answer is too long"))?.copy_from_slice(&bytes);
                    }
                    Fill::Vec(vec) if vec.len() + bytes.len() > MAX_ANSWER_BYTES => {
                        return Err(io::Error::other("the answer is too long"));
                    }
                    Fill::Vec(vec) => vec.extend_from_slice(&bytes),
                }
                length += bytes.len();
            }
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            Ok(Answer { headers: head.headers, length, refusal: is_refusal.then(|| (head.status.as_u16(), text)) })
        };
        let mut ask = pin!(ask);
        let both = poll_fn(|context| {
            // Its result does not matter: an error reaches the request, too. A future must not be polled after its end.
            if work.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
                *work = None;
            }
            match ask.as_mut().poll(context) {
                Poll::Pending if work.is_none() => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                polled => polled,
            }
        });
        socket.drive(|| deadline, both)?
    }
}
