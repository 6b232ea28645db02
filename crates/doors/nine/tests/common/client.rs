//! A 9P2000 client that was written from the manual, without the server's code.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The error is the text of an `Rerror`, or a failure of the connection.
pub type Result<T> = std::result::Result<T, String>;

pub trait Connection: Read + Write + Send {}
impl<T: Read + Write + Send> Connection for T {}

/// A connection whose fid 0 is the root.
pub struct Client {
    connection: Box<dyn Connection>,
    pub msize: u32,
    next: u32,
}

/// The content of an `Rstat` or of a directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub name: String,
    pub length: u64,
    pub mode: u32,
    pub modified: u32,
    pub path: u64,
    pub version: u32,
}

pub const OPEN_READ: u8 = 0;
pub const OPEN_WRITE: u8 = 1;
pub const OPEN_READ_WRITE: u8 = 2;
pub const OPEN_TRUNCATE: u8 = 0x10;
pub const OPEN_REMOVE_ON_CLOSE: u8 = 0x40;
pub const MODE_APPEND: u8 = 0x80;
pub const MODE_DIRECTORY: u32 = 0x8000_0000;

/// The fields of a message.
#[derive(Default)]
pub struct Body(pub Vec<u8>);

impl Body {
    pub fn n(mut self, width: usize, number: u64) -> Body {
        self.0.extend(&number.to_le_bytes()[..width]);
        self
    }

    pub fn s(self, text: &str) -> Body {
        let mut body = self.n(2, text.len() as u64);
        body.0.extend(text.as_bytes());
        body
    }
}

/// Reads numbers and texts from bytes.
struct Taken<'a>(&'a [u8]);

impl Taken<'_> {
    fn n(&mut self, width: usize) -> u64 {
        let (number, rest) = self.0.split_at(width);
        self.0 = rest;
        number.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    fn s(&mut self) -> String {
        let length = self.n(2) as usize;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn told(&mut self) -> Told {
        assert!(self.n(2) >= 47);
        self.n(2 + 4);
        let kind = self.n(1);
        let (version, path) = (self.n(4) as u32, self.n(8));
        let mode = self.n(4) as u32;
        assert_eq!(u64::from(mode >> 24), kind);
        self.n(4);
        let (modified, length, name) = (self.n(4) as u32, self.n(8), self.s());
        for _ in 0..3 {
            assert!(!self.s().is_empty());
        }
        Told { name, length, mode, modified, path, version }
    }
}

impl Client {
    pub fn unix(path: &Path) -> io::Result<Client> {
        Ok(Client::over(Box::new(UnixStream::connect(path)?)))
    }

    pub fn tcp(address: &str) -> io::Result<Client> {
        Ok(Client::over(Box::new(TcpStream::connect(address)?)))
    }

    /// Agrees on a version, and attaches to the root.
    pub fn over(connection: Box<dyn Connection>) -> Client {
        Client::try_over(connection).unwrap()
    }

    /// Like [`Client::over`], for a server that may refuse the connection.
    pub fn try_over(connection: Box<dyn Connection>) -> Result<Client> {
        let mut client = Client { connection, msize: 8192, next: 1 };
        client.version(u32::MAX)?;
        client.attach(0, "")?;
        Ok(client)
    }

    pub fn send(&mut self, kind: u8, tag: u16, body: &[u8]) -> io::Result<()> {
        let mut message = (7 + body.len() as u32).to_le_bytes().to_vec();
        message.push(kind);
        message.extend(tag.to_le_bytes());
        message.extend(body);
        self.connection.write_all(&message)
    }

    pub fn receive(&mut self) -> io::Result<(u8, u16, Vec<u8>)> {
        let mut header = [0; 7];
        self.connection.read_exact(&mut header)?;
        let mut fields = Taken(&header);
        let (size, kind, tag) = (fields.n(4), fields.n(1) as u8, fields.n(2) as u16);
        assert!(size <= u64::from(self.msize.max(8192)), "an answer of {size} bytes");
        let mut body = vec![0; size as usize - 7];
        self.connection.read_exact(&mut body)?;
        Ok((kind, tag, body))
    }

    /// Sends a request and returns the answer.
    pub fn ask(&mut self, kind: u8, body: Body) -> Result<Vec<u8>> {
        let tag = if kind == 100 { 0xffff } else { 7 };
        self.send(kind, tag, &body.0).map_err(|error| error.to_string())?;
        let (answer, answered, body) = self.receive().map_err(|error| error.to_string())?;
        assert_eq!(answered, tag);
        match answer {
            107 => Err(Taken(&body).s()),
            _ => {
                assert_eq!(answer, kind + 1);
                Ok(body)
            }
        }
    }

    pub fn version(&mut self, msize: u32) -> Result<String> {
        let body = self.ask(100, Body::default().n(4, msize.into()).s("9P2000"))?;
        let mut fields = Taken(&body);
        self.msize = fields.n(4) as u32;
        Ok(fields.s())
    }

    pub fn attach(&mut self, fid: u32, aname: &str) -> Result<()> {
        self.ask(104, Body::default().n(4, fid.into()).n(4, 0xffff_ffff).s("tester").s(aname)).map(drop)
    }

    /// Returns a new fid for a path below the root.
    pub fn walk(&mut self, path: &str) -> Result<u32> {
        self.walk_from(0, path)
    }

    pub fn walk_from(&mut self, from: u32, path: &str) -> Result<u32> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let fid = self.next;
        self.next += 1;
        let head = Body::default().n(4, from.into()).n(4, fid.into()).n(2, names.len() as u64);
        let body = self.ask(110, names.iter().fold(head, |body, name| body.s(name)))?;
        match Taken(&body).n(2) as usize == names.len() {
            true => Ok(fid),
            false => Err("the walk ended early".into()),
        }
    }

    pub fn open(&mut self, path: &str, mode: u8) -> Result<u32> {
        let fid = self.walk(path)?;
        self.open_fid(fid, mode).map(|()| fid)
    }

    pub fn open_fid(&mut self, fid: u32, mode: u8) -> Result<()> {
        self.ask(112, Body::default().n(4, fid.into()).n(1, mode.into())).map(drop)
    }

    pub fn create(&mut self, folder: &str, name: &str, perm: u32, mode: u8) -> Result<u32> {
        let fid = self.walk(folder)?;
        let body = Body::default().n(4, fid.into()).s(name).n(4, perm.into()).n(1, mode.into());
        self.ask(114, body).map(|_| fid)
    }

    pub fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>> {
        let body = self.ask(116, Body::default().n(4, fid.into()).n(8, offset).n(4, count.into()))?;
        let mut fields = Taken(&body);
        assert_eq!(fields.n(4) as usize, fields.0.len());
        Ok(fields.0.to_vec())
    }

    pub fn write(&mut self, fid: u32, offset: u64, bytes: &[u8]) -> Result<u32> {
        let mut body = Body::default().n(4, fid.into()).n(8, offset).n(4, bytes.len() as u64);
        body.0.extend(bytes);
        Ok(Taken(&self.ask(118, body)?).n(4) as u32)
    }

    pub fn clunk(&mut self, fid: u32) -> Result<()> {
        self.ask(120, Body::default().n(4, fid.into())).map(drop)
    }

    pub fn remove(&mut self, path: &str) -> Result<()> {
        let fid = self.walk(path)?;
        self.ask(122, Body::default().n(4, fid.into())).map(drop)
    }

    pub fn stat_fid(&mut self, fid: u32) -> Result<Told> {
        let body = self.ask(124, Body::default().n(4, fid.into()))?;
        let mut fields = Taken(&body);
        assert_eq!(fields.n(2) as usize, fields.0.len());
        Ok(fields.told())
    }

    pub fn stat(&mut self, path: &str) -> Result<Told> {
        let fid = self.walk(path)?;
        let told = self.stat_fid(fid);
        self.clunk(fid)?;
        told
    }

    /// Changes the given attributes. Without any, it asks the server to make the file durable.
    pub fn wstat(&mut self, fid: u32, mode: Option<u32>, length: Option<u64>, name: &str) -> Result<()> {
        let none = u64::MAX;
        let record = Body::default().n(2, none).n(4, none).n(1, none).n(4, none).n(8, none);
        let record = record.n(4, mode.map_or(none, u64::from)).n(4, none).n(4, none).n(8, length.unwrap_or(none));
        let record = record.s(name).s("").s("").s("");
        let size = record.0.len() as u64;
        let mut body = Body::default().n(4, fid.into()).n(2, size + 2).n(2, size);
        body.0.extend(record.0);
        self.ask(126, body).map(drop)
    }

    pub fn sync(&mut self, fid: u32) -> Result<()> {
        self.wstat(fid, None, None, "")
    }

    /// Reads a whole file, in messages of the maximum length.
    pub fn read_all(&mut self, path: &str) -> Result<Vec<u8>> {
        let fid = self.open(path, OPEN_READ)?;
        let mut all = Vec::new();
        loop {
            let read = self.read(fid, all.len() as u64, u32::MAX)?;
            all.extend(&read);
            if read.is_empty() {
                self.clunk(fid)?;
                return Ok(all);
            }
        }
    }

    /// Writes all bytes, in messages of the maximum length.
    pub fn write_all(&mut self, fid: u32, bytes: &[u8]) -> Result<()> {
        let unit = self.msize as usize - 24;
        for (at, part) in (0..).step_by(unit).zip(bytes.chunks(unit)) {
            assert_eq!(self.write(fid, at, part)? as usize, part.len());
        }
        Ok(())
    }

    /// Lists a directory, in pieces of this size.
    pub fn list(&mut self, path: &str, count: u32) -> Result<Vec<Told>> {
        let fid = self.open(path, OPEN_READ)?;
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let read = self.read(fid, offset, count)?;
            if read.is_empty() {
                self.clunk(fid)?;
                return Ok(all);
            }
            offset += read.len() as u64;
            let mut fields = Taken(&read);
            while !fields.0.is_empty() {
                all.push(fields.told());
            }
        }
    }

    pub fn names(&mut self, path: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.list(path, 8000)?.into_iter().map(|told| told.name).collect();
        names.sort();
        Ok(names)
    }
}
