//! The HTTP server: one request for each connection, which ends after a bounded time whatever the client does.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::error::NodeError;

/// The largest number of connections at a time. Others wait.
const MAX_CONNECTIONS: u32 = 64;
/// The most memory of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// The most that is read of a request's body, which no answer needs.
const MAX_BODY_BYTES: usize = 64 << 10;
/// How long a client may take to send the head of its request.
const MAX_HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may last. A report waits for the store while that is opened again.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(30);
/// How long connections that have begun may take when the server ends.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// The connections that the system accepts before the server does: the standard library asks for this many.
const ACCEPT_BACKLOG: usize = 128;
/// How long the server looks for connections that the system has accepted when the server ends.
const LAST_ACCEPT_TIME: Duration = Duration::from_millis(20);
/// The pause after a failed accept, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Threads that wait for the store. More requests wait for these.
const MAX_WAITING_THREADS: usize = 4;

type Answer = Response<Full<Bytes>>;
type Answering = dyn Fn(&Method, &Uri, &HeaderMap) -> Answer + Send + Sync;

/// A running server.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Listens on the address, and answers requests in a thread of its own. `answer` may wait.
    pub fn begin(
        address: SocketAddr,
        answer: impl Fn(&Method, &Uri, &HeaderMap) -> Answer + Send + Sync + 'static,
    ) -> Result<Server, NodeError> {
        let refused = |source| NodeError::Refused { address, source };
        let listener = StdListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(MAX_WAITING_THREADS).build();
        let runtime = runtime.map_err(NodeError::Start)?;
        let (stop, stopped) = watch::channel(false);
        let run = move || {
            if let Err(error) = runtime.block_on(serve(listener, Arc::new(answer), stopped)) {
                tracing::error!(%error, "the node cannot listen");
            }
            // A report that hangs on a target that hangs must not keep the node from ending.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("terrace-http".into()).spawn(run).map_err(NodeError::Start)?;
        Ok(Server { address, stop, thread })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections, and answers the requests of those that have begun.
    pub fn end(self) {
        // The thread has ended already if nobody receives this.
        let _ = self.stop.send(true);
        // A panic there has been printed.
        let _ = self.thread.join();
    }
}

async fn serve(listener: StdListener, answer: Arc<Answering>, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    let begin = |stream: TcpStream, permit| tokio::spawn(converse(stream, answer.clone(), permit));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return Ok(()) };
        tokio::select! {
            _ = stop.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(begin(stream, permit)),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    // Connections that the system has accepted already would be reset with the listener. They get their answers. Clients that
    // go on connecting must not keep the server from ending.
    let last = async {
        for _ in 0..ACCEPT_BACKLOG {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let Ok(Ok((stream, _))) = timeout(LAST_ACCEPT_TIME, listener.accept()).await else { return };
            drop(begin(stream, permit));
        }
    };
    let _ = timeout(DRAIN_TIME, last).await;
    drop(listener);
    let _ = timeout(DRAIN_TIME, permits.acquire_many(MAX_CONNECTIONS)).await;
    Ok(())
}

/// Answers the request of a connection.
async fn converse(stream: TcpStream, answer: Arc<Answering>, _permit: OwnedSemaphorePermit) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            // The system discards an answer that is on its way if the connection is closed with bytes that nobody has read.
            let _ = Limited::new(body, MAX_BODY_BYTES).collect().await;
            let answer = move || answer(&head.method, &head.uri, &head.headers);
            let answered = tokio::task::spawn_blocking(answer).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|_| {
                let mut failed = Response::default();
                *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                failed
            }))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(MAX_HEAD_TIME).keep_alive(false);
    // A client that sends no more still gets its answer.
    builder.half_close(true);
    builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
    match timeout(MAX_CONNECTION_TIME, builder.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection broke"),
        Err(_) => tracing::debug!("a connection took too long"),
    }
}
