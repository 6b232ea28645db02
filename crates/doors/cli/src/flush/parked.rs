//! Operations on parked destinations.

use anyhow::{Result, bail};
use serde_json::json;
use terrace::{Ack, Store};
use terrace_stream::{Name, Stream};

use super::Flush;
use crate::output::{Show, count, size};

/// The operation.
#[derive(Clone, Copy, PartialEq)]
pub enum Wish {
    Retry,
    Drop,
    Forget,
}

impl Wish {
    pub fn of(asked: &Flush) -> Option<Wish> {
        let wishes = [(asked.retry, Wish::Retry), (asked.drop, Wish::Drop), (asked.forget, Wish::Forget)];
        wishes.into_iter().find_map(|(asked, wish)| asked.then_some(wish))
    }
}

pub fn carry_out(store: &Store, asked: &Flush, wish: Wish, show: Show) -> Result<bool> {
    let stream = Stream::open(store, &asked.stream, Ack::Placed)?;
    let names = destinations(&stream, asked)?;
    let shown = |name: &Name| String::from_utf8_lossy(name).into_owned();
    let list: Vec<String> = names.iter().map(shown).collect();
    match wish {
        Wish::Retry => {
            let is_running = stream.retry(&names)?;
            let when = if is_running { "within a second" } else { "by the next run" };
            let words = format!("{} will be tried again {when}", count(names.len() as u64, "destination"));
            show.result(&json!({ "retry": list, "running": is_running }), &words)?;
        }
        Wish::Drop => {
            let dropped = stream.drop_waiting(&names)?;
            let line = |(name, one): (&Name, &terrace_stream::Dropped)| match one.requests {
                0 => format!("{}: nothing in the log waited for it; what is in its source stays there", shown(name)),
                requests => {
                    format!("{}: {}, {}, thrown away", shown(name), count(requests, "request"), size(one.bytes))
                }
            };
            let lines: Vec<String> = dropped.iter().map(line).collect();
            let value = dropped
                .iter()
                .map(|(name, one)| json!({ "destination": shown(name), "requests": one.requests, "bytes": one.bytes }));
            show.result(&json!({ "dropped": value.collect::<Vec<_>>() }), &lines.join("\n"))?;
        }
        Wish::Forget => {
            stream.forget(&names)?;
            let words = format!("it is forgotten how far {} got", count(names.len() as u64, "destination"));
            show.result(&json!({ "forgotten": list }), &words)?;
        }
    }
    Ok(true)
}

/// Returns the named destinations, or all parked ones.
fn destinations(stream: &Stream, asked: &Flush) -> Result<Vec<Name>> {
    use std::os::unix::ffi::OsStrExt;

    if asked.all {
        let parked = stream.ledger().all()?.into_iter().filter(|(_, mark)| mark.parked.is_some());
        return Ok(parked.map(|(name, _)| name.as_slice().into()).collect());
    }
    if asked.sources.is_empty() {
        bail!("name the destinations as `terrace flush` shows them, or say --all for all that are parked");
    }
    let names: Vec<Name> = asked.sources.iter().map(|name| name.as_bytes().into()).collect();
    for name in &names {
        if !stream.knows(name)? {
            bail!(
                "stream {:?} knows no destination {}; `terrace flush` shows those that are parked",
                stream.name(),
                String::from_utf8_lossy(name)
            );
        }
    }
    Ok(names)
}
