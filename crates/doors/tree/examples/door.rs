//! A whole door: it serves objects by their keys, one key a line, each answered by a line with the length and then the bytes.
//!
//! `cargo run -p terrace-tree --example door -- STORE`, and in another shell: `echo some/key | nc 127.0.0.1 5650`.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use terrace::Store;

/// A longer line is not a key: it ends the connection before it fills the memory.
const MAX_LINE_BYTES: u64 = 4096;

/// Answers the requests of one client until it leaves.
fn answer(store: &Store, mut client: TcpStream) -> Result<(), Box<dyn Error>> {
    let mut requests = BufReader::new(client.try_clone()?);
    loop {
        let mut line = Vec::new();
        requests.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        let Some(key) = line.strip_suffix(b"\n") else { return Ok(()) };
        match store.get(key) {
            Ok(bytes) => {
                writeln!(client, "{}", bytes.len())?;
                client.write_all(&bytes)?;
            }
            Err(error) => writeln!(client, "error: {error}")?,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::open(std::env::args_os().nth(1).ok_or("which store?")?.as_ref())?;
    for client in TcpListener::bind("127.0.0.1:5650")?.incoming() {
        let (store, client) = (store.clone(), client?);
        std::thread::spawn(move || {
            if let Err(error) = answer(&store, client) {
                eprintln!("a client was left: {error}");
            }
        });
    }
    Ok(())
}
