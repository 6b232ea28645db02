//! A node in this process, and a store's side of its target.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::io::Write;
use tempfile::TempDir;
use terrace_codec::Encoding;
use terrace_format::frame::{self, Identity as FrameIdentity, Scratch};
use terrace_remote::{Identity, NodeKind, Secret, ServedTarget, Server, ServerOptions};
use terrace_tier::{Ids, OpenedTarget, Place, Target, TargetKind, TargetOwner, TargetSettings};

pub const NODE_SECRET: &str = "correct-horse-battery-staple";
pub const STORE_ID: u64 = 77;

#[derive(Clone, Copy, PartialEq)]
pub enum Transport {
    Plain,
    Tls,
}

/// A node that serves one target, `t`.
pub struct Node {
    pub folder: TempDir,
    pub address: SocketAddr,
    pub capacity: u64,
    transport: Transport,
    fingerprint: Option<String>,
    server: Option<Server>,
    ids: Arc<dyn Ids>,
}

struct Counter(AtomicU64);

impl Ids for Counter {
    fn next(&self) -> io::Result<u64> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Writes a file that only its owner can read.
pub fn write_secret(path: &Path, secret: &str) {
    let mut file = fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path).unwrap();
    writeln!(file, "{secret}").unwrap();
}

impl Node {
    pub fn start(transport: Transport) -> Node {
        Node::start_with(transport, u64::MAX)
    }

    pub fn start_with(transport: Transport, capacity: u64) -> Node {
        let folder = tempfile::tempdir().unwrap();
        write_secret(&folder.path().join("secret"), NODE_SECRET);
        let (address, ids) = ("127.0.0.1:0".parse().unwrap(), Arc::new(Counter(AtomicU64::new(1))));
        let mut node = Node { folder, address, capacity, transport, fingerprint: None, server: None, ids };
        node.restart();
        node
    }

    pub fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Starts it on the address that it had.
    pub fn restart(&mut self) {
        let identity =
            (self.transport == Transport::Tls).then(|| Identity::open(&self.folder.path().join("tls")).unwrap());
        self.fingerprint = identity.as_ref().map(|identity| identity.fingerprint().to_owned());
        let server = Server::begin(ServerOptions {
            listen: self.address,
            secret: Secret::read(&self.folder.path().join("secret")).unwrap(),
            identity,
            targets: vec![ServedTarget { name: "t".into(), path: self.disk(), capacity: self.capacity }],
            numbers: None,
            handler: None,
        });
        let server = server.unwrap();
        self.address = server.address();
        self.server = Some(server);
    }

    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.end();
        }
    }

    pub fn settings(&self) -> TargetSettings {
        self.settings_at(self.address)
    }

    pub fn settings_at(&self, address: SocketAddr) -> TargetSettings {
        let scheme = if self.transport == Transport::Tls { "https" } else { "http" };
        let mut settings = TargetSettings::at(format!("{scheme}://{address}/t"));
        let secret = self.folder.path().join("secret").display().to_string();
        settings.options.insert("secret".into(), secret);
        settings.options.extend(self.fingerprint.clone().map(|fingerprint| ("fingerprint".into(), fingerprint)));
        settings
    }

    pub fn owner(&self) -> TargetOwner {
        let dir = self.folder.path().join("store");
        fs::create_dir_all(&dir).unwrap();
        TargetOwner { store: STORE_ID, number: 1, dir, ids: self.ids.clone() }
    }

    pub fn opened(&self, settings: &TargetSettings) -> OpenedTarget {
        NodeKind.open(settings, &self.owner()).unwrap()
    }

    pub fn open(&self) -> Arc<dyn Target> {
        let opened = self.opened(&self.settings());
        assert!(opened.trouble.is_none(), "{:?}", opened.trouble);
        opened.target
    }

    /// The segment files.
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.disk().join("segments")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn bytes(write: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(write * 2 + 1) >> 3) as u8 ^ write as u8).collect()
}

pub fn append(target: &dyn Target, write: u64, length: usize) -> io::Result<Place> {
    let identity = FrameIdentity { object: 5, write, offset: 0, replica: 0 };
    let raw = bytes(write, length);
    let mut scratch = Scratch::default();
    target.append(&frame::encode(identity, Encoding::NONE, &raw, &mut scratch).unwrap())
}

/// Reads a whole frame, and returns its payload.
pub fn read(target: &dyn Target, place: Place) -> io::Result<Vec<u8>> {
    let mut whole = vec![0; place.length as usize];
    target.read(place, 0, &mut whole)?;
    let header = frame::Header::read(&whole, STORE_ID, place)
        .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
    Ok(whole.split_off(header.written_len()))
}

pub fn scan(target: &dyn Target) -> Vec<(u64, Place)> {
    let mut found = Vec::new();
    target.scan(&mut |place, header| found.push((header.identity.write, place))).unwrap();
    found.sort();
    found
}

/// Checks that the error sets the target aside, and says nothing of a frame.
pub fn assert_sets_aside(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, NotConnected, TimedOut};
    assert!(matches!(error.kind(), ConnectionAborted | NotConnected | TimedOut), "{error:?}");
}
