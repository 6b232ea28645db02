//! A whole door: it reads, writes and removes objects by names of any bytes but spaces. A request is a line: `get NAME`,
//! `delete NAME`, or `set NAME SECONDS LENGTH`, followed by the bytes, which expire after that time. The answer is the length and
//! the bytes, or a line.
//!
//! `cargo run -p terrace-tree --example door -- STORE`, and in another shell: `echo get some/name | nc 127.0.0.1 5650`.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime};

use terrace::key::{KeyRule, KeySpace};
use terrace::{Ack, Attributes, PutOptions, Store};

/// A longer line is no request: it ends the connection before it fills the memory.
const MAX_LINE_BYTES: u64 = 4096;
/// The longest value, for the same reason.
const MAX_VALUE_BYTES: u64 = 1 << 20;

/// Answers one request. `client` provides the bytes of a `set`.
fn answer(store: &Store, names: &KeySpace, line: &[u8], client: &mut impl Read) -> Result<Vec<u8>, Box<dyn Error>> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let number = |word: &[u8]| Ok::<u64, Box<dyn Error>>(std::str::from_utf8(word)?.parse()?);
    match words[..] {
        [b"get", name] => {
            let bytes = store.get(&names.key(name)?)?;
            Ok([format!("{}\n", bytes.len()).as_bytes(), &bytes].concat())
        }
        [b"set", name, seconds, length] => {
            let length = Some(number(length)?).filter(|length| *length <= MAX_VALUE_BYTES).ok_or("too long")?;
            let mut bytes = Vec::new();
            client.take(length).read_to_end(&mut bytes)?;
            let life = Duration::from_secs(u32::try_from(number(seconds)?)?.into());
            let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + life;
            let mut attributes = Attributes::now();
            attributes.set_expiry(Some(u64::try_from(end.as_nanos())?));
            let options = PutOptions { ack: Some(Ack::Placed), attributes: Some(attributes), ..PutOptions::default() };
            store.put_bytes(&names.key(name)?, &bytes, &options)?;
            Ok(b"stored\n".to_vec())
        }
        [b"delete", name] => {
            store.remove(&names.key(name)?)?;
            Ok(b"deleted\n".to_vec())
        }
        _ => Err("no such request".into()),
    }
}

/// Answers the requests of one client until it leaves.
fn serve(store: &Store, names: &KeySpace, mut client: TcpStream) -> Result<(), Box<dyn Error>> {
    let mut requests = BufReader::new(client.try_clone()?);
    loop {
        let mut line = Vec::new();
        requests.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        let Some(request) = line.strip_suffix(b"\n") else { return Ok(()) };
        match answer(store, names, request, &mut requests) {
            Ok(reply) => client.write_all(&reply)?,
            // The connection ends: bytes of the refused request may follow, which must not be taken for requests.
            Err(error) => return Ok(writeln!(client, "error: {error}")?),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::open(std::env::args_os().nth(1).ok_or("which store?")?.as_ref())?;
    // In a flat key space each byte string is a name: `a` beside `a/b`, and `..`.
    let names = store.key_space(b"door").or_else(|_| store.make_key_space(b"door", KeyRule::Flat))?;
    for client in TcpListener::bind("127.0.0.1:5650")?.incoming() {
        let (store, names, client) = (store.clone(), names.clone(), client?);
        std::thread::spawn(move || {
            if let Err(error) = serve(&store, &names, client) {
                eprintln!("a client was left: {error}");
            }
        });
    }
    Ok(())
}
