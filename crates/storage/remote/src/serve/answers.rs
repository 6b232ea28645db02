//! The answers to requests.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Buf, Bytes};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::target::{NumberNeeded, Open, Served};
use super::{Handler, HandlerRequest};
use crate::buffers::Buffers;
use crate::secret::Secret;
use crate::wire::{
    Appended, ERROR_HEADER, INCARNATION_HEADER, MAX_FRAME_BYTES, MAX_PLACES, MAX_REQUEST_BYTES, NEXT_HEADER,
    NUMBER_NEEDED, OWNER_HEADER, Owner, error_name,
};

/// The path below which targets are.
const TARGETS_PATH: &str = "/targets/";

/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// Answers requests about the targets of this node.
pub struct Answers {
    pub targets: BTreeMap<String, Served>,
    pub secret: Secret,
    pub buffers: Buffers,
    pub handler: Option<Arc<dyn Handler>>,
}

/// A failed request.
enum Refusal {
    /// The request itself is wrong.
    Request(StatusCode, &'static str),
    /// The target cannot do it.
    Target(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Target(error)
    }
}

const BAD_REQUEST: Refusal = Refusal::Request(StatusCode::BAD_REQUEST, "the request makes no sense");
const NO_SUCH_PATH: Refusal = Refusal::Request(StatusCode::NOT_FOUND, "there is nothing at this path");

/// The body of an answer, and where the next page begins.
#[derive(Default)]
struct Told {
    body: Bytes,
    next: Option<(u64, u64)>,
}

fn answer_with(value: &impl Serialize) -> Result<Told, Refusal> {
    let body = serde_json::to_vec(value).map_err(|error| Refusal::Target(io::Error::other(error)))?;
    Ok(Told { body: body.into(), next: None })
}

impl Answers {
    /// Whether the client knows the secret.
    pub fn allow(&self, headers: &HeaderMap) -> bool {
        headers.get(AUTHORIZATION).is_some_and(|sent| self.secret.is(sent.as_bytes()))
    }

    /// Answers a request. `began` is called when the client is known, before its body is read.
    pub async fn answer<B>(&self, request: Request<B>, began: impl FnOnce()) -> Answer
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        if !self.allow(&head.headers) {
            return refuse(StatusCode::UNAUTHORIZED, "the secret is missing or wrong".to_owned());
        }
        began();
        if let Some(handler) = self.handler.as_ref().filter(|_| !head.uri.path().starts_with(TARGETS_PATH)) {
            return handle(&**handler, &head, body).await;
        }
        let mut bytes = self.buffers.lend();
        if let Err(refused) = collect_within(body, MAX_REQUEST_BYTES, &mut bytes).await {
            return refused;
        }
        let mut incarnation = None;
        match self.told(&head.method, head.uri.path(), head.uri.query(), &head.headers, &bytes, &mut incarnation) {
            Ok(told) => {
                let mut answer = Response::new(Full::new(told.body));
                let mut add = |name, text: String| {
                    // Numbers are values that a header may have.
                    if let Ok(value) = HeaderValue::from_str(&text) {
                        answer.headers_mut().insert(name, value);
                    }
                };
                if let Some(incarnation) = incarnation {
                    add(INCARNATION_HEADER, format!("{incarnation:016x}"));
                }
                if let Some((segment, offset)) = told.next {
                    add(NEXT_HEADER, format!("segment={segment}&offset={offset}"));
                }
                answer
            }
            Err(Refusal::Request(status, text)) => refuse(status, text.to_owned()),
            Err(Refusal::Target(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                refuse(StatusCode::BAD_REQUEST, error.to_string())
            }
            Err(Refusal::Target(error)) => refuse_error(&error),
        }
    }

    fn told(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        body: &[u8],
        incarnation: &mut Option<u64>,
    ) -> Result<Told, Refusal> {
        let mut parts = path.strip_prefix(TARGETS_PATH).ok_or(NO_SUCH_PATH)?.split('/');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let missing = || io::Error::new(io::ErrorKind::NotConnected, format!("this node serves no target {name:?}"));
        let target = self.targets.get(name).ok_or_else(missing)?;
        if let ("GET", ["marker"]) = (method.as_str(), &rest[..]) {
            let (owner, found) = target.find_owner()?;
            *incarnation = found;
            return answer_with(&owner);
        }
        if let ("PUT", ["marker"]) = (method.as_str(), &rest[..]) {
            *incarnation = Some(target.make(parse(body)?)?);
            return answer_with(&());
        }
        let owner = headers.get(OWNER_HEADER).and_then(|owner| read_owner(owner.to_str().ok()?)).ok_or(BAD_REQUEST)?;
        if let ("DELETE", []) = (method.as_str(), &rest[..]) {
            target.remove(owner)?;
            return answer_with(&());
        }
        let open = target.open(owner)?;
        *incarnation = Some(open.incarnation);
        told_of_frames(&open, method, &rest, &Query(query.unwrap_or_default()), body, &self.buffers)
    }
}

fn told_of_frames(
    open: &Open,
    method: &Method,
    path: &[&str],
    query: &Query<'_>,
    body: &[u8],
    buffers: &Buffers,
) -> Result<Told, Refusal> {
    match (method.as_str(), path) {
        ("GET", ["frames", segment, offset, length]) => {
            let length = number::<usize>(length)?;
            if length > MAX_FRAME_BYTES {
                return Err(BAD_REQUEST);
            }
            let skip = query.number("skip")?.unwrap_or(0);
            let skip = u32::try_from(skip).map_err(|_| BAD_REQUEST)?;
            let mut bytes = buffers.lend();
            bytes.resize(length, 0);
            open.read(number(segment)?, number(offset)?, skip, &mut bytes)?;
            Ok(Told { body: bytes.into_body(), next: None })
        }
        ("GET", ["segments", segment]) => answer_with(&open.segment(number(segment)?)?),
        ("POST", ["frames"]) => {
            let place = open.append(body, query.number("number")?).map_err(of_target)?;
            answer_with(&Appended { place })
        }
        ("POST", ["sync"]) => answer_with(&open.sync(&list(body)?).map_err(of_target)?),
        ("POST", ["free"]) => answer_with(&open.free(&list(body)?).map_err(of_target)?),
        ("POST", ["discard"]) => answer_with(&open.discard(&list(body)?).map_err(of_target)?),
        ("POST", ["verify"]) => answer_with(&open.verify(&list(body)?).map_err(of_target)?),
        ("GET", ["space"]) => answer_with(&open.space().map_err(of_target)?),
        ("GET", ["headers"]) => {
            let [segment, offset] = [query.number("segment")?, query.number("offset")?].map(|n| n.unwrap_or(0));
            let whole = query.get("whole") == Some("true");
            let page = open.headers(segment, offset, whole).map_err(of_target)?;
            Ok(Told { body: page.headers.into(), next: page.next })
        }
        _ => Err(NO_SUCH_PATH),
    }
}

/// Only a read and a question about a segment may find that something is missing. In all other cases it is the directory, or a part of it.
fn of_target(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::NotConnected, error),
        _ => error,
    }
}

/// Answers a request that is not about targets.
async fn handle<B>(handler: &dyn Handler, head: &Parts, body: B) -> Answer
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut bytes = Vec::new();
    if let Err(refused) = collect_within(body, handler.max_body_bytes(), &mut bytes).await {
        return refused;
    }
    let (method, path, query) = (head.method.as_str(), head.uri.path(), head.uri.query().unwrap_or_default());
    match handler.answer(&HandlerRequest { method, path, query, body: &bytes }) {
        Some((status, text)) => {
            let mut answer = Response::new(Full::new(Bytes::from(text)));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
            answer
        }
        None => refuse(StatusCode::NOT_FOUND, "there is nothing at this path".to_owned()),
    }
}

/// Replaces the content of `into` by a body of at most these bytes, or returns the answer that refuses it.
async fn collect_within<B>(body: B, most: usize, into: &mut Vec<u8>) -> Result<(), Answer>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match collect(Limited::new(body, most), into).await {
        Ok(()) => Ok(()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long".to_owned()))
        }
        Err(_) => Err(refuse(StatusCode::BAD_REQUEST, "the body is cut short".to_owned())),
    }
}

/// Replaces the content of `into` by a body.
async fn collect<B: Body>(body: B, into: &mut Vec<u8>) -> Result<(), B::Error> {
    into.clear();
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame?.into_data() else { continue };
        while data.has_remaining() {
            let length = data.chunk().len();
            into.extend_from_slice(data.chunk());
            data.advance(length);
        }
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|_| BAD_REQUEST)
}

fn list<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, Refusal> {
    let list: Vec<T> = parse(body)?;
    if list.len() <= MAX_PLACES { Ok(list) } else { Err(BAD_REQUEST) }
}

fn number<T: FromStr>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| BAD_REQUEST)
}

/// The parameters of a request. They are words and numbers, so nothing in them is escaped.
struct Query<'a>(&'a str);

impl Query<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.get(name).map(number).transpose()
    }
}

fn read_owner(text: &str) -> Option<Owner> {
    let (store, target) = text.split_once('/')?;
    Some(Owner { store: u64::from_str_radix(store, 16).ok()?, target: target.parse().ok()? })
}

fn refuse_error(error: &io::Error) -> Answer {
    let is_number_needed = error.get_ref().is_some_and(|inner| inner.is::<NumberNeeded>());
    let (name, status) = if is_number_needed { (NUMBER_NEEDED, 428) } else { error_name(error.kind()) };
    let mut answer = refuse(StatusCode::from_u16(status).unwrap_or_default(), error.to_string());
    answer.headers_mut().insert(ERROR_HEADER, HeaderValue::from_static(name));
    // The request was read to its end.
    answer.headers_mut().remove(CONNECTION);
    answer
}

fn refuse(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text + "\n")));
    *answer.status_mut() = status;
    // What is left of the request is not read.
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
