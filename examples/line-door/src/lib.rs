//! A whole door. A request is a line: `get NAME`, `delete NAME`, or `set NAME SECONDS LENGTH`, followed by the bytes, which expire
//! after that time. The answer is the length and the bytes, or a line.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use terrace::key::{KeyRule, KeySpace};
use terrace::{Ack, Attributes, PutOptions, Store};
use terrace_kit::{Address, Connection, Reach, ThreadOptions, ThreadServer};

/// The key space that has the names.
const KEY_SPACE: &[u8] = b"lines";
/// A longer line ends the connection, before it fills the memory.
const MAX_LINE_BYTES: u64 = 4096;
/// The longest value, for the same reason.
pub const MAX_VALUE_BYTES: u32 = 1 << 20;
/// A client that is silent for longer loses its connection.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// When there are too many clients, one that has been silent for longer loses its connection to a new one.
const SPARED_SILENCE: Duration = Duration::from_secs(5);
/// How long requests in progress may take when the server ends.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// A request, with its name.
#[derive(Debug)]
pub enum Request<'a> {
    /// `get`
    Get(&'a [u8]),
    /// `set`, with the seconds and the length.
    Set(&'a [u8], u32, u32),
    /// `delete`
    Delete(&'a [u8]),
}

/// Parses a line, without its end.
pub fn parse(line: &[u8]) -> Option<Request<'_>> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    match words[..] {
        [b"get", name] => Some(Request::Get(name)),
        [b"set", name, seconds, length] => {
            let length = number(length).filter(|length| *length <= MAX_VALUE_BYTES)?;
            Some(Request::Set(name, number(seconds)?, length))
        }
        [b"delete", name] => Some(Request::Delete(name)),
        _ => None,
    }
}

/// Serves a store. Every client has full access, so other machines are refused.
///
/// # Errors
/// If the store has no room for the key space, or the system refuses the address.
pub fn serve_store(store: &Store, address: &Address) -> io::Result<ThreadServer> {
    // Keys are paths. In a flat key space each byte string is a name: `a` beside `a/b`, and `..` (`docs/keys.md`).
    let names = store.key_space(KEY_SPACE).or_else(|_| store.make_key_space(KEY_SPACE, KeyRule::Flat));
    let names = names.map_err(io::Error::other)?;
    let reach = Reach::ThisMachine("and everybody who reaches it may do everything; listen on 127.0.0.1");
    let options =
        ThreadOptions { name: "line-door", max_connections: 256, idle: Some(MAX_SILENCE), drain_time: DRAIN_TIME };
    let store = store.clone();
    let serve = move |client: &Connection| serve(&store, &names, client);
    ThreadServer::begin(address, reach, options, serve).map_err(io::Error::other)
}

/// Answers a client's requests until it leaves.
fn serve(store: &Store, names: &KeySpace, mut client: &Connection) -> io::Result<()> {
    let mut requests = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        requests.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\n") else { return Ok(()) };
        client.begin_request();
        match answer(store, names, line, &mut requests) {
            Ok(reply) => client.write_all(&reply)?,
            Err(error) => {
                // Bytes of the refused request may follow, which must not be taken for requests.
                return writeln!(client, "error: {error}");
            }
        }
        client.end_request(SPARED_SILENCE);
    }
}

/// Answers a request. `client` has the bytes of a `set`.
fn answer(store: &Store, names: &KeySpace, line: &[u8], client: &mut impl Read) -> Result<Vec<u8>, Box<dyn Error>> {
    match parse(line).ok_or("no such request")? {
        Request::Get(name) => {
            // `get` alone would return an expired object that is not removed yet.
            store.stat_name(names, name)?;
            let bytes = store.get(&names.key(name)?)?;
            Ok([format!("{}\n", bytes.len()).as_bytes(), &bytes].concat())
        }
        Request::Set(name, seconds, length) => {
            let mut bytes = vec![0; length as usize];
            // A client that dies meanwhile changes nothing.
            client.read_exact(&mut bytes)?;
            let mut attributes = Attributes::now();
            attributes.set_expiry(Some(u64::try_from(attributes.mtime)? + u64::from(seconds) * 1_000_000_000));
            let options = PutOptions { ack: Some(Ack::Placed), attributes: Some(attributes), ..PutOptions::default() };
            store.put_bytes(&names.key(name)?, &bytes, &options)?;
            Ok(b"stored\n".to_vec())
        }
        Request::Delete(name) => {
            store.remove(&names.key(name)?)?;
            Ok(b"deleted\n".to_vec())
        }
    }
}
