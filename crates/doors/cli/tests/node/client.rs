//! A client of the node's HTTP server that sees each byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest wait for an answer. No test expects one to be missing.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(60);

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub head: String,
    pub body: String,
}

/// Connects.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(MAX_ANSWER_TIME))?;
    stream.set_write_timeout(Some(MAX_ANSWER_TIME))?;
    Ok(stream)
}

/// Sends bytes, and reads until the server ends the connection. Empty where it does so without an answer.
pub fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(address)?;
    // The server may end the connection before it has read all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(answer),
        read => read.map(|_| answer),
    }
}

/// Reads a whole answer.
///
/// # Panics
/// If an answer has begun and is not whole.
pub fn read(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    if bytes.is_empty() {
        read?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(parse(&bytes))
}

/// The parts of an answer.
pub fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("a cut answer: {text:?}"));
    let field = |line: &str| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned);
    let length: usize = head.lines().find_map(field).unwrap().parse().unwrap();
    assert_eq!(body.len(), length, "a cut answer: {text:?}");
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, head: head.to_owned(), body: body.to_owned() }
}

/// Asks for a path.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = connect(address)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    read(&mut stream)
}
