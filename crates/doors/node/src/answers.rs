//! The answers to requests.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Response, StatusCode, Uri};

use crate::report::{Report, Reporter};
use crate::{metrics, page};

pub const PLAIN_TEXT_TYPE: &str = "text/plain; charset=utf-8";
const PAGE_TYPE: &str = "text/html; charset=utf-8";
/// A browser runs and loads nothing for the page, whatever it contains.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Answers requests from reports. All of them only read.
pub struct Answers {
    reporter: Reporter,
    /// Whether clients may reach the node by any name.
    any_host: bool,
}

impl Answers {
    /// Creates answers from these reports. With `any_host`, requests may name any host.
    pub fn new(reporter: Reporter, any_host: bool) -> Answers {
        Answers { reporter, any_host }
    }

    /// Answers a request. May wait for the store.
    pub fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
        refuse(self.any_host, method, headers).unwrap_or_else(|| self.answer_path(uri.path()))
    }

    fn answer_path(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/" => self.told(PAGE_TYPE, |report| Some(page::page(report))),
            "/metrics" => self.told(metrics::METRICS_TYPE, |report| metrics::text(report).ok()),
            "/healthz" => self.told(PLAIN_TEXT_TYPE, |report| Some(health_text(report))),
            _ => reply(StatusCode::NOT_FOUND, PLAIN_TEXT_TYPE, "there are /, /metrics and /healthz\n".into()),
        }
    }

    fn told(&self, kind: &'static str, write: impl FnOnce(&Report) -> Option<String>) -> Response<Full<Bytes>> {
        match self.reporter.report() {
            Ok(Some(report)) => match write(&report) {
                Some(text) => reply(StatusCode::OK, kind, text),
                None => failed("the report cannot be written\n".into()),
            },
            Ok(None) => failed("the store is being closed\n".into()),
            Err(error) => failed(format!("{error}\n")),
        }
    }
}

/// Refuses a request that could change something, or whose host is another's. With `any_host`, it may name any.
pub fn refuse(any_host: bool, method: &Method, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
    if !any_host && !names_this_machine(headers) {
        // A page of another site may let its own host name point to this machine's address, and so read data that only
        // this machine may read.
        let text = "name this machine by its address or as localhost\n".to_owned();
        return Some(reply(StatusCode::MISDIRECTED_REQUEST, PLAIN_TEXT_TYPE, text));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut refused = reply(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT_TYPE, "only GET and HEAD\n".into());
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Some(refused)
}

/// Says that there is no answer now, and why.
pub fn failed(reason: String) -> Response<Full<Bytes>> {
    reply(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT_TYPE, reason)
}

/// Returns the health as text: its word, and a line for each finding.
fn health_text(report: &Report) -> String {
    let mut text = format!("{}\n", report.health.health);
    for finding in &report.health.findings {
        text.push_str(&format!("{}: {}\n", finding.code, finding.message));
    }
    text
}

/// Whether the client names this machine by an address or as `localhost`, or does not name it (HTTP/1.0).
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut names = headers.get_all(HOST).iter();
    let Some(name) = names.next() else { return true };
    let Some(authority) = name.to_str().ok().and_then(|name| name.parse::<Authority>().ok()) else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    names.next().is_none() && (host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok())
}

/// An answer of this type, which no browser keeps or runs.
pub fn reply(code: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let fixed = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    response.headers_mut().extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}
