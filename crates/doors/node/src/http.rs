//! The HTTP server: one request for each connection, which ends after a bounded time whatever the client does.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use terrace_kit::{ListenError, Reach, TaskOptions, TaskServer};
use tokio::net::TcpStream;
use tokio::time::timeout;

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
/// Threads that wait for the store. More requests wait for these.
const MAX_WAITING_THREADS: usize = 4;

type Answer = Response<Full<Bytes>>;
type Answering = dyn Fn(&Method, &Uri, &HeaderMap) -> Answer + Send + Sync;

/// Answers requests to an address, in threads of its own. `answer` may wait.
pub fn serve_requests(
    address: SocketAddr,
    reach: Reach,
    answer: impl Fn(&Method, &Uri, &HeaderMap) -> Answer + Send + Sync + 'static,
) -> Result<TaskServer, ListenError> {
    let options = TaskOptions {
        name: "terrace-http",
        threads: Some(1),
        max_waiting_threads: MAX_WAITING_THREADS,
        max_connections: MAX_CONNECTIONS,
        drain_time: DRAIN_TIME,
    };
    let answer: Arc<Answering> = Arc::new(answer);
    // A connection ends after its request, so it need not know when the server ends.
    TaskServer::begin(address, reach, options, move |stream, _| converse(stream, answer.clone()))
}

/// Answers the request of a connection.
async fn converse(stream: TcpStream, answer: Arc<Answering>) {
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
