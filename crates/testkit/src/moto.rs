//! A server of S3 for one test: moto, with one bucket.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use crate::{Missing, Running, find_server};

/// Moto shows private blobs to a request that is signed, and checks no signature.
const AUTHORIZATION_HEADER: &str =
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Moto's S3. It keeps its blobs in memory, so being killed means being cut off here.
pub struct Moto {
    running: Running,
    _folder: tempfile::TempDir,
}

impl Moto {
    /// The name of the bucket.
    pub const BUCKET_NAME: &str = "runs";

    /// Starts a server.
    ///
    /// # Errors
    /// If this machine has none.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Result<Moto, Missing> {
        let program = find_server("s3", "moto_server")?;
        let folder = tempfile::tempdir().expect("a folder");
        let command = move |port: u16| {
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        };
        let moto = Moto { running: Running::start(&folder.path().join("log"), command), _folder: folder };
        moto.make_bucket();
        Ok(moto)
    }

    /// Returns OpenDAL's options for the bucket, without its name.
    pub fn options(&self) -> [(&'static str, String); 4] {
        [
            ("endpoint", format!("http://127.0.0.1:{}", self.running.proxy.port)),
            ("region", "us-east-1".into()),
            ("access_key_id", "test".into()),
            ("secret_access_key", "test".into()),
        ]
    }

    /// Returns them as the command line takes them.
    pub fn option_flags(&self) -> Vec<String> {
        let flags = self.options().into_iter().map(|(name, value)| ["--option".to_owned(), format!("{name}={value}")]);
        flags.flatten().collect()
    }

    /// Makes the bucket, which neither Terrace nor OpenDAL does.
    ///
    /// # Panics
    /// If it is not made.
    pub fn make_bucket(&self) {
        self.ask("PUT", "", b"").expect("the bucket is made");
    }

    /// Returns the bytes of a blob, past the proxy. None if there is no such blob.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.ask("GET", name, b"")
    }

    /// Writes a blob, past the proxy.
    ///
    /// # Panics
    /// If it is not written.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.ask("PUT", name, bytes).expect("the blob is written");
    }

    /// Returns the list of all blobs, as XML.
    ///
    /// # Panics
    /// If there is none.
    pub fn list(&self) -> String {
        String::from_utf8(self.ask("GET", "", b"").expect("a list")).expect("UTF-8")
    }

    /// Returns the methods of all requests for a blob so far.
    pub fn methods(&self, name: &str) -> Vec<String> {
        let asked = |line: &str| {
            let (before, _) = line.split_once(&format!(" /{}/{name} HTTP", Moto::BUCKET_NAME))?;
            // In a log with colours, a letter ends the code of one.
            before.rsplit(['"', 'm']).next().map(str::to_owned)
        };
        self.running.said().lines().filter_map(asked).collect()
    }

    /// Ends all connections, in the middle of whatever they carry, and takes no more.
    pub fn cut_off(&self) {
        self.running.proxy.cut_off();
    }

    /// Takes connections again.
    pub fn connect(&self) {
        self.running.proxy.lead_to(self.running.port);
    }

    /// Ends the server with all that it held, and starts an empty one.
    pub fn lose_everything(&mut self) {
        self.running.kill();
        self.running.start_again();
    }

    /// Returns the body of the answer. None if the answer is not 200. Asking twice does no harm, and moto has been seen to end a connection
    /// without an answer.
    fn ask(&self, method: &str, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let asked = self.ask_once(method, name, bytes).or_else(|_| self.ask_once(method, name, bytes));
        asked.expect("the server answers")
    }

    fn ask_once(&self, method: &str, name: &str, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.running.port))?;
        let (bucket, name) = (Moto::BUCKET_NAME, name.replace(' ', "%20"));
        let head = format!(
            "{method} /{bucket}/{name} HTTP/1.0\r\nHost: localhost\r\nAuthorization: {AUTHORIZATION_HEADER}\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer of HTTP");
        let is_good =
            answer.split(|byte| *byte == b'\r').next().is_some_and(|line| line.windows(5).any(|w| w == b" 200 "));
        Ok(is_good.then(|| answer.split_off(end + 4)))
    }
}
