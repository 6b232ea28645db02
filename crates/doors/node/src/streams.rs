//! Requests for the streams of the node's store, over HTTP: from other machines, and from programs without Terrace's library.

use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;
use serde_json::json;
use terrace::{Ack, Store};
use terrace_remote::{Handler, HandlerRequest};
use terrace_stream::{Accepted, Error, Framed, Frames, MAX_REQUEST_BYTES, Name, Origin, Place, Request, Stream};

use crate::held::Held;

const STREAMS_PATH: &str = "/streams/";
/// The longest body: many small requests, or one of the longest.
const MAX_BODY_BYTES: usize = MAX_REQUEST_BYTES + (1 << 20);

const MALFORMED_REQUEST: &str = "the request makes no sense; docs/guide/flush.md says what a node understands";

/// Answers at `/streams/`, once the node has its store.
#[derive(Default)]
pub struct Streams {
    held: OnceLock<Arc<Held>>,
}

impl Streams {
    /// Takes requests for the streams of this store.
    pub fn of(&self, held: Arc<Held>) {
        // A node has one store, so it is set once.
        let _ = self.held.set(held);
    }
}

impl Handler for Streams {
    fn max_body_bytes(&self) -> usize {
        MAX_BODY_BYTES
    }

    fn answer(&self, request: &HandlerRequest<'_>) -> Option<(u16, String)> {
        let path = request.path.strip_prefix(STREAMS_PATH)?;
        // Held until the request is in the log, so that the store is not closed before.
        let held = self.held.get().map(|held| held.read());
        let Some(store) = held.as_ref().and_then(|held| held.as_ref()) else {
            return Some((503, "the store is not open\n".into()));
        };
        Some(match answer(store, path, request) {
            Ok(value) => (200, format!("{value}\n")),
            Err(Refusal::Malformed) => (400, format!("{MALFORMED_REQUEST}\n")),
            Err(Refusal::Stream(error)) => (status_of(&error), format!("{error}\n")),
        })
    }
}

enum Refusal {
    Malformed,
    Stream(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Stream(error)
    }
}

fn status_of(error: &Error) -> u16 {
    match error {
        Error::BadName(_) | Error::BadDestination { .. } | Error::BadProducer(_) | Error::BadFrame { .. } => 400,
        Error::TooLong { .. } => 413,
        Error::TooFar { .. } => 409,
        Error::Engine(terrace::Error::NoSpace { .. }) => 507,
        _ => 503,
    }
}

fn answer(store: &Store, path: &str, request: &HandlerRequest<'_>) -> Result<serde_json::Value, Refusal> {
    let (stream, destination) = path.split_once('/').map_or((path, None), |(stream, rest)| (stream, Some(rest)));
    let query = Query(request.query);
    let ack = if query.flag("durable")? { Ack::Durable } else { Ack::Placed };
    let stream = Stream::open(store, &text(stream)?, ack)?;
    match (request.method, destination) {
        ("GET", None) => {
            let producer = query.name("producer")?.ok_or(Refusal::Malformed)?;
            Ok(json!({ "next": stream.producer(producer)?.next() }))
        }
        ("POST", None) => {
            let framed = Frames::new(request.body).collect::<Result<Vec<Framed>, Error>>()?;
            Ok(accepted(&stream.append_framed(framed)?))
        }
        ("POST", Some(destination)) => {
            let place = query.number("at")?.map_or(Place::Append, Place::At);
            let (destination, bytes) = (name(destination), request.body.to_vec().into());
            let origin = match (query.name("producer")?, query.number("sequence")?) {
                (Some(producer), Some(sequence @ 1..)) => Some(Origin { producer, sequence }),
                (None, None) => None,
                _ => return Err(Refusal::Malformed),
            };
            let request = Request { destination, place, bytes, ends: query.flag("ends")? };
            request.check()?;
            Ok(accepted(&stream.append_framed(vec![Framed { request, origin }])?))
        }
        _ => Err(Refusal::Malformed),
    }
}

fn accepted(requests: &[Accepted]) -> serde_json::Value {
    let known = requests.iter().filter(|one| **one == Accepted::Known).count();
    json!({ "new": requests.len() - known, "known": known })
}

fn name(escaped: &str) -> Name {
    percent_decode_str(escaped).collect::<Vec<u8>>().into()
}

fn text(escaped: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(escaped).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| Refusal::Malformed)
}

/// The parameters of a request.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn name(&self, key: &str) -> Result<Option<Name>, Refusal> {
        match self.get(key) {
            Some("") => Err(Refusal::Malformed),
            value => Ok(value.map(name)),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        self.get(key).map(|value| value.parse().map_err(|_| Refusal::Malformed)).transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, Refusal> {
        self.get(key).map_or(Ok(false), |value| value.parse().map_err(|_| Refusal::Malformed))
    }
}
