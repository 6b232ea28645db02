//! [`MetricsServer`]: the counts of a server of a protocol, by HTTP.

use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Response, StatusCode, Uri};
use terrace_kit::{Reach, TaskServer, Traffic};

use crate::answers::{PLAIN_TEXT_TYPE, failed, refuse, reply};
use crate::error::NodeError;
use crate::http::serve_requests;
use crate::metrics::METRICS_TYPE;

/// The reason to refuse other machines.
const OPEN_ADVICE: &str = "and everybody who reaches it reads the metrics: there is no authentication; show them on 127.0.0.1, and \
                           forward the port by ssh";

/// Shows the counts of a server at `/metrics`. Dropping it answers the requests that have begun, and listens no more.
pub struct MetricsServer(TaskServer);

impl MetricsServer {
    /// Listens on an address of this machine; port 0 takes a free one. The counts are those of a server of this protocol.
    ///
    /// # Errors
    /// If other machines can reach the address, or the system refuses it.
    pub fn begin(address: SocketAddr, protocol: &'static str, traffic: Traffic) -> Result<MetricsServer, NodeError> {
        let answer = move |method: &Method, uri: &Uri, headers: &HeaderMap| {
            refuse(false, method, headers).unwrap_or_else(|| answer(uri, protocol, &traffic))
        };
        Ok(MetricsServer(serve_requests(address, Reach::ThisMachine(OPEN_ADVICE), answer)?))
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn answer(uri: &Uri, protocol: &'static str, traffic: &Traffic) -> Response<Full<Bytes>> {
    match (uri.path(), traffic.text(protocol)) {
        ("/metrics", Ok(text)) => reply(StatusCode::OK, METRICS_TYPE, text),
        ("/metrics", Err(_)) => failed("the counts cannot be written\n".into()),
        _ => reply(StatusCode::NOT_FOUND, PLAIN_TEXT_TYPE, "there is /metrics\n".into()),
    }
}
