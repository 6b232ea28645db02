//! A stream of a Redis server as a source. Its entries have the fields `destination` and `bytes`, and `offset` unless they append. The
//! server acts as the log: an entry is deleted there when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::{Client, Connection, RedisResult, Value, from_redis_value};
use bytes::Bytes;
use rustix_futex_sync::Mutex;

use crate::control::{Control, Left};
use crate::entry::{Entry, Position};
use crate::ledger::Ledger;
use crate::request::{Name, Place, Request};
use crate::{Error, Pulled, Result, Source};

/// The number of entries that one request pulls.
const ENTRIES_PER_REQUEST: usize = 256;
/// The delay before a failed request is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// A Redis stream as a source.
pub struct Redis {
    client: Client,
    key: String,
    name: String,
    number: usize,
    ledger: Arc<Ledger>,
    control: Arc<Control>,
    /// How long the server may be unavailable.
    patience: Duration,
    /// Held during requests as well, because the connection is in it: a connection serves one request at a time. A leaf.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    away: Option<Instant>,
    last: Option<Position>,
    /// Pulled entries that are pending.
    open: BTreeMap<Position, Name>,
    /// Pending entries that must be pulled again.
    again: BTreeSet<Position>,
    /// Entries that are not requests, and the reasons. They stay in the server.
    bad: Vec<(String, String)>,
}

/// An entry's id, and its pairs of field and value.
type Raw = (String, Vec<(Vec<u8>, Vec<u8>)>);

impl Redis {
    /// Opens the stream `key` of the server at `address`, such as `redis://127.0.0.1:6379/0`, as source number `number`. `name`
    /// identifies the source in the destinations' marks. The server may be unavailable for `patience`.
    pub fn new(
        address: &str,
        key: &str,
        name: &str,
        number: usize,
        ledger: Arc<Ledger>,
        patience: Duration,
        control: &Arc<Control>,
    ) -> Result<Redis> {
        let client = Client::open(address).map_err(|e| failed(address, &e))?;
        let (key, name, control) = (key.to_owned(), name.to_owned(), control.clone());
        Ok(Redis { client, key, name, number, ledger, control, patience, state: Mutex::default() })
    }

    /// Queries the server. Returns `None` while it is unavailable and patience remains.
    fn ask<T>(&self, state: &mut State, ask: impl Fn(&mut Connection) -> RedisResult<T>) -> Result<Option<T>> {
        let connected = match state.connection.take() {
            Some(connection) => Ok(connection),
            None => self.client.get_connection_with_timeout(Duration::from_secs(5)),
        };
        let asked = connected.and_then(|mut connection| Ok((ask(&mut connection)?, connection)));
        match asked {
            Ok((answer, connection)) => {
                (state.connection, state.away) = (Some(connection), None);
                Ok(Some(answer))
            }
            Err(e) => {
                let passing =
                    e.is_io_error() || e.is_timeout() || e.is_connection_dropped() || e.is_connection_refusal();
                let since = *state.away.get_or_insert_with(Instant::now);
                let passing = passing || matches!(e.code(), Some("LOADING" | "BUSY" | "TRYAGAIN" | "MASTERDOWN"));
                if !passing || since.elapsed() >= self.patience {
                    return Err(failed(&format!("stream {:?}", self.key), &e));
                }
                Ok(None)
            }
        }
    }

    fn range(&self, state: &mut State, from: String, to: &str) -> Result<Option<Vec<Entry>>> {
        let ask = |connection: &mut Connection| {
            ::redis::cmd("XRANGE")
                .arg(&self.key)
                .arg(&from)
                .arg(to)
                .arg("COUNT")
                .arg(ENTRIES_PER_REQUEST)
                .query::<Vec<Value>>(connection)
        };
        let Some(found) = self.ask(state, ask)? else { return Ok(None) };
        let mut entries = Vec::with_capacity(found.len());
        for value in found {
            let what = || format!("an entry of the Redis stream {:?}", self.key);
            let (id, fields): Raw = from_redis_value(value).map_err(|e| Error::damaged(what(), e))?;
            let position = Position::parse(&id).ok_or_else(|| Error::damaged(what(), "its id is none"))?;
            state.last = state.last.max(Some(position));
            match self.entry(&id, position, &fields) {
                Ok(entry) => entries.push(entry),
                // One bad entry must not hold up the others until a user removes it.
                Err(bad) => {
                    tracing::error!(%bad, "an entry stays where it is");
                    state.bad.push((format!("redis {} {id}", self.key), bad.to_string()));
                    self.control.set_left(self.number, Left { stays: state.bad.clone(), ..Left::default() });
                }
            }
        }
        Ok(Some(entries))
    }

    fn entry(&self, id: &str, position: Position, fields: &[(Vec<u8>, Vec<u8>)]) -> Result<Entry> {
        let what = || format!("entry {id} of the Redis stream {:?}", self.key);
        let field = |name: &str| fields.iter().find(|(field, _)| field == name.as_bytes()).map(|(_, value)| value);
        let missing = |name: &str| Error::damaged(what(), format!("it has no field {name:?}"));
        let place = match field("offset").map(|offset| std::str::from_utf8(offset).ok()?.parse().ok()) {
            None => Place::Append,
            Some(Some(offset)) => Place::At(offset),
            Some(None) => return Err(Error::damaged(what(), "its offset is no number")),
        };
        let request = Request {
            destination: field("destination").ok_or_else(|| missing("destination"))?.as_slice().into(),
            place,
            bytes: Bytes::from(field("bytes").ok_or_else(|| missing("bytes"))?.clone()),
            ends: false,
        };
        request.check().map_err(|e| Error::damaged(what(), e))?;
        Ok(Entry { request, source: self.number, position, file: None, lane: None })
    }

    fn delete(&self, state: &mut State, done: &[Position]) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        // Sync the marks first: after the deletion, nothing else records that the entries are done.
        self.ledger.sync()?;
        let ids: Vec<String> = done.iter().map(|at| id(*at)).collect();
        // If the server is unavailable, the entries stay there and are recognised as done when they are pulled again.
        self.ask(state, |connection| ::redis::cmd("XDEL").arg(&self.key).arg(&ids).query::<u64>(connection)).map(drop)
    }

    fn next(&self, state: &mut State) -> Result<Option<Vec<Entry>>> {
        if let Some(at) = state.again.first().copied() {
            let found = self.range(state, id(at), &id(at))?;
            if found.is_some() {
                state.again.remove(&at);
            }
            return Ok(found);
        }
        let before = state.last;
        let from = before.map_or("-".into(), |last| format!("({}", id(last)));
        let found = self.range(state, from, "+")?;
        // If all entries found are bad, good ones may follow.
        let is_end = found.as_ref().is_none_or(Vec::is_empty) && state.last == before;
        Ok(if is_end { None } else { found })
    }
}

fn id(position: Position) -> String {
    format!("{}-{}", position.0, position.1)
}

fn failed(what: &str, error: &::redis::RedisError) -> Error {
    Error::io(format!("Redis, {what}"))(std::io::Error::other(error.to_string()))
}

impl Source for Redis {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        let ends = self.control.drains();
        let mut state = self.state.lock(); // see the field
        let (mut pulled, mut bytes, mut done) = (Vec::new(), 0, Vec::new());
        while bytes < budget
            && let Some(entries) = self.next(&mut state)?
        {
            for entry in entries {
                if self.ledger.done(&entry.request.destination, &self.name)? >= Some(entry.position) {
                    done.push(entry.position);
                    continue;
                }
                bytes += entry.request.bytes.len();
                state.open.insert(entry.position, entry.request.destination.clone());
                pulled.push(entry);
            }
        }
        self.delete(&mut state, &done)?;
        Ok(match pulled.is_empty() {
            false => Pulled::Moves(pulled),
            true if ends && state.away.is_none() => Pulled::End,
            true => Pulled::Nothing,
        })
    }

    fn wait(&self, limit: Duration) {
        // Released before the sleep.
        let away = self.state.lock().away.is_some();
        std::thread::sleep(if away { RETRY_DELAY } else { limit.min(Duration::from_millis(2)) });
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock(); // see the field
        let done: Vec<Position> = moves.iter().map(|entry| entry.position).collect();
        done.iter().for_each(|at| drop(state.open.remove(at)));
        self.delete(&mut state, &done)
    }

    fn again(&self, destination: &Name) -> Result<()> {
        let mut state = self.state.lock(); // a change in memory only
        let missed = state.open.iter().filter(|(_, name)| *name == destination).map(|(at, _)| *at);
        let missed: Vec<Position> = missed.collect();
        state.again.extend(missed);
        Ok(())
    }
}
