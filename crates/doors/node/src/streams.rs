//! Requests for the streams of the node's store, over HTTP: from other machines, and from programs without Terrace's library.

use std::collections::HashMap;
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

const REFUSAL_ADVICE: &str = "docs/guide/flush.md says what a node understands";
/// The parameters that a request with this method to a stream, to a destination, and a question has.
const FRAMES_PARAMETERS: [&str; 1] = ["durable"];
const DESTINATION_PARAMETERS: [&str; 5] = ["at", "durable", "ends", "producer", "sequence"];
const QUESTION_PARAMETERS: [&str; 1] = ["producer"];

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
            Err(Refusal::WrongMethod(reason)) => (405, format!("{reason}; {REFUSAL_ADVICE}\n")),
            Err(Refusal::Malformed(reason)) => (400, format!("{reason}; {REFUSAL_ADVICE}\n")),
            Err(Refusal::Stream(error)) => (status_of(&error), format!("{error}\n")),
        })
    }
}

/// Why a request is refused.
enum Refusal {
    WrongMethod(String),
    Malformed(String),
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
    let open = |query: &Query<'_>| {
        let ack = if query.flag("durable")? { Ack::Durable } else { Ack::Placed };
        Ok::<_, Refusal>(Stream::open(store, &text(stream)?, ack)?)
    };
    match (request.method, destination) {
        ("GET", None) => {
            let query = Query::read(request.query, &QUESTION_PARAMETERS)?;
            let producer = query.name("producer")?.ok_or_else(|| missing("producer"))?;
            Ok(json!({ "next": open(&query)?.producer(producer)?.next() }))
        }
        ("POST", None) => {
            let query = Query::read(request.query, &FRAMES_PARAMETERS)?;
            let framed = Frames::new(request.body).collect::<Result<Vec<Framed>, Error>>()?;
            Ok(accepted(&open(&query)?.append_framed(framed)?))
        }
        ("POST", Some(destination)) => {
            let query = Query::read(request.query, &DESTINATION_PARAMETERS)?;
            let place = query.number("at")?.map_or(Place::Append, Place::At);
            let (destination, bytes) = (name(destination), request.body.to_vec().into());
            let origin = match (query.name("producer")?, query.number("sequence")?) {
                (_, Some(0)) => return Err(malformed("sequence", "the first one is 1")),
                (Some(producer), Some(sequence)) => Some(Origin { producer, sequence }),
                (None, None) => None,
                (None, _) => return Err(missing("producer")),
                (_, None) => return Err(missing("sequence")),
            };
            let request = Request { destination, place, bytes, ends: query.flag("ends")? };
            request.check()?;
            Ok(accepted(&open(&query)?.append_framed(vec![Framed { request, origin }])?))
        }
        (method, destination) => {
            let methods = if destination.is_some() { "POST" } else { "POST or GET" };
            Err(Refusal::WrongMethod(format!("the method {method} means nothing here; use {methods}")))
        }
    }
}

fn malformed(parameter: &str, reason: &str) -> Refusal {
    Refusal::Malformed(format!("the parameter {parameter}: {reason}"))
}

fn missing(parameter: &str) -> Refusal {
    malformed(parameter, "it is missing")
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
    decoded.map(|text| text.into_owned()).map_err(|_| Refusal::Malformed("the stream's name is not UTF-8".into()))
}

/// The parameters of a request.
struct Query<'a>(HashMap<&'a str, &'a str>);

impl<'a> Query<'a> {
    /// Reads the parameters. The request has no others than these.
    fn read(text: &'a str, known: &[&str]) -> Result<Query<'a>, Refusal> {
        let mut values = HashMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| malformed(pair, "it has no value"))?;
            if !known.contains(&key) {
                return Err(malformed(key, &format!("it means nothing here; this request has {}", known.join(", "))));
            }
            if values.insert(key, value).is_some() {
                return Err(malformed(key, "it is there twice"));
            }
        }
        Ok(Query(values))
    }

    fn name(&self, key: &str) -> Result<Option<Name>, Refusal> {
        match self.0.get(key) {
            Some(&"") => Err(malformed(key, "it is empty")),
            value => Ok(value.map(|value| name(value))),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        let parse = |value: &&str| value.parse().map_err(|_| malformed(key, &format!("{value:?} is no number")));
        self.0.get(key).map(parse).transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, Refusal> {
        let parse = |value: &&str| value.parse().map_err(|_| malformed(key, "it is neither true nor false"));
        self.0.get(key).map_or(Ok(false), parse)
    }
}
