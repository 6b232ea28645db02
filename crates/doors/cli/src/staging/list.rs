//! Lists of names, one on each line.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use terrace::key;

use super::clock::Clock;
use crate::output::path_name;

/// The time between two looks at the clock while a list is awaited.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The end of the wait for a list.
pub enum AwaitedList {
    Names(Vec<Vec<u8>>),
    /// The time was over before the list was, for this reason.
    Late(&'static str),
}

/// Reads the names in a file, or in standard input. A name is a key; it may begin with `./` and end with `/`. Empty lines are skipped.
pub fn read_list(path: &Path) -> Result<Vec<Vec<u8>>> {
    parse(path, read(path))
}

/// Reads the names as [`read_list`] does, as long as there is time: a pipe may have nobody who writes into it.
pub fn await_list(path: &Path, clock: &Clock<'_>) -> Result<AwaitedList> {
    let (sender, receiver) = sync_channel(1);
    let own_path = path.to_owned();
    // It cannot be ended while it waits for a pipe, and ends with the process. Nobody receives what it sends too late.
    let reader = thread::Builder::new().name("list".into()).spawn(move || drop(sender.send(read(&own_path))));
    reader.context("starting a thread")?;
    loop {
        match receiver.recv_timeout(CLOCK_CHECK_INTERVAL) {
            Ok(text) => return parse(path, text).map(AwaitedList::Names),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(reason) = clock.why_over() {
                    return Ok(AwaitedList::Late(reason));
                }
            }
            // It has panicked.
            Err(RecvTimeoutError::Disconnected) => {
                return parse(path, Err(io::Error::other("the thread that reads it has ended")))
                    .map(AwaitedList::Names);
            }
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return fs::read(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
}

fn parse(path: &Path, text: io::Result<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let text = text.with_context(|| format!("reading {}", path_name(path)))?;
    let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty());
    let parse = |(number, line): (usize, &[u8])| {
        let name = line.strip_prefix(b"./").unwrap_or(line);
        let name = name.strip_suffix(b"/").unwrap_or(name);
        key::check(name).with_context(|| format!("{}: line {number}", path_name(path)))?;
        Ok(name.to_vec())
    };
    lines.map(parse).collect()
}
