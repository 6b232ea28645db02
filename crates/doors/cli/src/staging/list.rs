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
    Names(Vec<Line>),
    /// The time was over before the list was, for this reason.
    Late(&'static str),
}

/// A line of a list.
pub struct Line {
    pub text: Vec<u8>,
    /// The name, or why there can be none.
    pub name: Result<Vec<u8>>,
}

/// Reads the names in a file, or in standard input. A name is a key; it may begin with `./` and end with `/`. Empty lines are skipped.
pub fn read_list(path: &Path) -> Result<Vec<Line>> {
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

fn parse(path: &Path, text: io::Result<Vec<u8>>) -> Result<Vec<Line>> {
    let text = text.with_context(|| format!("reading {}", path_name(path)))?;
    let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty());
    let parse = |(number, line): (usize, &[u8])| {
        let name = parse_name(line).with_context(|| format!("{}: line {number}", path_name(path)));
        Line { text: line.to_vec(), name }
    };
    Ok(lines.map(parse).collect())
}

fn parse_name(line: &[u8]) -> Result<Vec<u8>> {
    let mut name = line.strip_prefix(b"./").unwrap_or(line);
    // A shell that completes a folder's name adds one, also to one that is there.
    while let Some(shorter) = name.strip_suffix(b"/") {
        name = shorter;
    }
    key::check(name)?;
    Ok(name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_key_or_is_refused_by_itself() {
        let lines = parse(Path::new("list"), Ok(b"a\n\n./b/\nc/d//\n../e\n/f\n/\ng".to_vec())).unwrap();
        let names: Vec<Option<&[u8]>> = lines.iter().map(|line| line.name.as_deref().ok()).collect();
        let expected: [Option<&[u8]>; 7] = [Some(b"a"), Some(b"b"), Some(b"c/d"), None, None, None, Some(b"g")];
        assert_eq!(names, expected);
        assert_eq!(lines[3].text, b"../e");
        assert_eq!(lines[3].name.as_ref().unwrap_err().to_string(), "list: line 5");
    }
}
