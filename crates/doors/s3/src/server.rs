//! [`Server`]: lets `s3s` read the requests of connections.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::host::SingleDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use terrace::Store;
use terrace_kit::{Certificate, Ending, Reach, TaskOptions, TaskServer, Traffic};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::BeginError;
use crate::answers::Answers;
use crate::bucket_folder::FolderNames;
use crate::counted_stream::CountedStream;
use crate::hosts::Hosts;
use crate::keys::Keys;
use crate::signed_headers::SignedHeaders;

/// The longest body that is held in memory: of requests that are XML, such as the names of 1,000 objects to delete.
const MAX_XML_BYTES: usize = 4 << 20;
/// The longest form that is held in memory. Forms are refused, but only after `s3s` has read them.
const MAX_FORM_BYTES: usize = 64 << 10;
/// The bytes of a connection that wait to be read.
const CONNECTION_BUFFER_BYTES: usize = 256 << 10;
/// How long a client may take for the head of a request, and how long a connection may wait for one.
const MAX_HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may take to agree on TLS.
const MAX_HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long requests under way may take when the server ends. Those that take longer are cut off; their objects are as they were.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// How long the server waits for requests that are on their way when it ends.
const LAST_REQUEST_TIME: Duration = Duration::from_millis(20);
/// A client that takes no bytes for so long loses its connection.
const MAX_UNSENT_TIME: Duration = Duration::from_secs(60);
/// Threads that wait for the engine beside those that a connection each can need.
const SPARE_THREADS: usize = 16;
/// The reason to refuse other machines.
const OPEN_ADVICE: &str = "which needs --keys, so that not everybody may write, and --certificate with --private-key";

/// The settings of a server.
pub struct S3Options {
    /// The address; port 0 chooses a free one.
    pub listen: SocketAddr,
    /// The clients. Without them, everybody who reaches the address may do everything, so it must be this machine's own.
    pub keys: Option<Keys>,
    /// The certificate. Without one, HTTP is plain, and the address must be this machine's own.
    pub certificate: Option<Certificate>,
    /// The domain whose subdomains are buckets. Without one, the path begins with the bucket.
    pub domain: Option<String>,
    /// Most connections at a time. Others wait.
    pub max_connections: u32,
}

impl S3Options {
    /// The usual limit of connections.
    pub const MAX_CONNECTIONS: u32 = 256;

    /// Settings without clients, certificate and domain.
    pub fn on(listen: SocketAddr) -> S3Options {
        S3Options { listen, keys: None, certificate: None, domain: None, max_connections: S3Options::MAX_CONNECTIONS }
    }
}

/// A running server. Dropping it ends it.
pub struct Server {
    tasks: TaskServer,
    traffic: Traffic,
}

impl Server {
    /// Begins to serve a store.
    ///
    /// ```
    /// use terrace::{Config, Store};
    /// use terrace_s3::{S3Options, Server};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let disk = dir.path().join("disk");
    /// let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
    /// let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "the example")?)?;
    /// let server = Server::begin(&store, S3Options::on("127.0.0.1:0".parse()?))?;
    /// println!("aws --endpoint-url http://{} s3 ls", server.address());
    /// server.end();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the options are not safe or not right, or the system refuses the address.
    pub fn begin(store: &Store, options: S3Options) -> Result<Server, BeginError> {
        let S3Options { listen, keys, certificate, domain, max_connections } = options;
        let is_protected = keys.is_some() && certificate.is_some();
        let reach = if is_protected { Reach::Anywhere } else { Reach::ThisMachine(OPEN_ADVICE) };
        let service = service(store, keys, domain.as_deref())?;
        let tls = certificate.map(|certificate| TlsAcceptor::from(certificate.server_config()));
        let traffic = Traffic::default();
        let connections = Connections { service, tls, traffic: traffic.clone() };
        let options = TaskOptions {
            name: "terrace-s3",
            threads: None,
            max_waiting_threads: max_connections as usize + SPARE_THREADS,
            max_connections,
            drain_time: DRAIN_TIME,
        };
        let serve = move |stream, ending| connections.clone().serve(stream, ending);
        let tasks = TaskServer::begin(listen, reach, options, serve).map_err(BeginError::new)?;
        Ok(Server { tasks, traffic })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.tasks.address()
    }

    /// The counts of what the server does.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Stops accepting connections, lets the requests under way end, and closes all connections.
    pub fn end(mut self) {
        self.tasks.end();
    }
}

fn service(store: &Store, keys: Option<Keys>, domain: Option<&str>) -> Result<S3Service, BeginError> {
    let mut config = S3Config::default();
    config.xml_max_body_size = MAX_XML_BYTES;
    config.post_object_max_file_size = MAX_FORM_BYTES as u64;
    config.form_max_field_size = MAX_FORM_BYTES;
    config.form_max_fields_size = MAX_FORM_BYTES;
    let mut builder = S3ServiceBuilder::new(Answers::new(store));
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.set_validation(FolderNames);
    let wrong = |error| BeginError::new(format!("--domain: {error}; write a name such as s3.example.org"));
    let check = |domain: &str| SingleDomain::new(domain).map(|_| domain.to_owned()).map_err(wrong);
    let domain = domain.map(check).transpose()?;
    builder.set_host(Hosts { domain, is_open: keys.is_none() });
    if let Some(keys) = keys {
        builder.set_auth(keys);
        builder.set_access(SignedHeaders);
    }
    Ok(builder.build())
}

/// The parts that all connections share.
#[derive(Clone)]
struct Connections {
    service: S3Service,
    tls: Option<TlsAcceptor>,
    traffic: Traffic,
}

impl Connections {
    async fn serve(self, stream: TcpStream, ending: Ending) {
        // Without this, the connection works, though it waits longer for a client that is gone.
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, MAX_UNSENT_TIME.as_millis() as u32);
        let _open = self.traffic.open();
        let stream = CountedStream::new(stream, self.traffic.clone());
        let Some(tls) = self.tls else { return converse(self.service, self.traffic, stream, ending).await };
        match timeout(MAX_HANDSHAKE_TIME, tls.accept(stream)).await {
            Ok(Ok(stream)) => return converse(self.service, self.traffic, stream, ending).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client does not agree on TLS"),
            Err(_) => tracing::debug!("a client took too long to agree on TLS"),
        }
        self.traffic.refused.inc();
    }
}

/// Answers the requests of a connection, until the client leaves or the server ends.
async fn converse(
    service: S3Service,
    traffic: Traffic,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut ending: Ending,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(MAX_HEAD_TIME).max_buf_size(CONNECTION_BUFFER_BYTES);
    let answer = service_fn(|request: Request<Incoming>| {
        let awaits_leave = request.headers().contains_key(EXPECT);
        let (service, traffic) = (service.clone(), traffic.clone());
        async move {
            traffic.count_request(name_method(request.method()));
            let answered = service.call(request.map(s3s::Body::from)).await;
            let status = answered.as_ref().ok().map(|response| response.status());
            if status.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
                traffic.errors.inc();
            }
            let mut response = answered?;
            if awaits_leave && !response.status().is_success() {
                // A refused client sends no body. Its next request on this connection could be taken for that.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, s3s::HttpError>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let stop = async {
        ending.wait().await;
        sleep(LAST_REQUEST_TIME).await;
    };
    let ended = tokio::select! {
        // The connection first: it may have a request.
        biased;
        ended = connection.as_mut() => ended,
        () = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// The kind of a request in the metrics. Clients choose a method, so there is one name for all unusual ones.
fn name_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::PUT => "put",
        Method::POST => "post",
        Method::DELETE => "delete",
        _ => "other",
    }
}
