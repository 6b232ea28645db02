//! A target of another node on loopback, beside a bare copy through one socket.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use terrace::frame::{self, Scratch};
use terrace::tier::{Ids, Place as TargetPlace, Target, TargetKind, TargetOwner, TargetSettings};
use terrace_codec::Encoding;
use terrace_remote::{Identity, NODE_NAME, NodeKind, Secret, ServedTarget, Server, ServerOptions, client_config};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{Times, median};

const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 4 << 10;
const ROUND_COUNT: usize = 7;
const MIN_SHARE_OF_COPY: f64 = 0.7;
const MAX_SMALL_MICROSECONDS: f64 = 150.0;
/// The requests of the bare copy: bytes to take, and bytes to give.
const TAKE_REQUEST: u8 = 1;
const GIVE_REQUEST: u8 = 2;

struct Numbers(AtomicU64);

impl Ids for Numbers {
    fn next(&self) -> io::Result<u64> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A stream with or without TLS.
trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

/// One side of the pairs: moves this many bytes there, or back.
struct Side<'a> {
    put: Box<dyn FnMut(usize) -> Result<()> + 'a>,
    get: Box<dyn FnMut(usize) -> Result<()> + 'a>,
}

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for (name, is_tls) in [("HTTP", false), ("HTTPS", true)] {
        let folder = place.ram().join(name);
        fs::create_dir(&folder)?;
        let identity = if is_tls { Some(Identity::open(&folder.join("tls"))?) } else { None };
        let (server, target) = serve(&folder, identity.as_ref())?;
        target.forget_new()?;
        rows.extend(pairs(name, &*target, bare(identity.as_ref())?)?);
        drop(target);
        server.end();
    }
    Ok(rows)
}

/// A node, and a store's side of its target.
fn serve(folder: &Path, identity: Option<&Identity>) -> Result<(Server, Arc<dyn Target>)> {
    let secret = folder.join("secret");
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(&secret)?;
    writeln!(file, "a-secret-of-the-benchmark")?;
    let server = Server::begin(ServerOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        secret: Secret::read(&secret)?,
        identity: identity.cloned(),
        targets: vec![ServedTarget { name: "t".into(), path: folder.join("disk"), capacity: u64::MAX }],
        numbers: None,
        handler: None,
    })?;
    let scheme = if identity.is_some() { "https" } else { "http" };
    let mut settings = TargetSettings::at(format!("{scheme}://{}/t", server.address()));
    settings.options.insert("secret".into(), secret.display().to_string());
    settings.options.extend(identity.map(|identity| ("fingerprint".into(), identity.fingerprint().to_owned())));
    let owner = TargetOwner { store: 1, number: 0, dir: folder.to_owned(), ids: Arc::new(Numbers(AtomicU64::new(1))) };
    let opened = NodeKind.open(&settings, &owner)?;
    opened.trouble.map_or(Ok((server, opened.target)), |trouble| Err(trouble.into()))
}

/// A connection to a thread that takes and gives bytes.
fn bare(identity: Option<&Identity>) -> Result<Box<dyn Both>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let config = identity.map(Identity::server_config);
    thread::spawn(move || -> Result<()> {
        let stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        let mut stream: Box<dyn Both> = match config {
            Some(config) => Box::new(StreamOwned::new(ServerConnection::new(config)?, stream)),
            None => Box::new(stream),
        };
        let mut bytes = vec![0; LARGE_BYTES];
        let mut head = [0; 5];
        // Until the other side closes the connection.
        while stream.read_exact(&mut head).is_ok() {
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if head[0] == TAKE_REQUEST {
                stream.read_exact(&mut bytes[..length])?;
                stream.write_all(&[0])?;
            } else {
                stream.write_all(&bytes[..length])?;
            }
            stream.flush()?;
        }
        Ok(())
    });
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let Some(identity) = identity else { return Ok(Box::new(stream)) };
    let config = client_config(identity.fingerprint()).map_err(|reason| anyhow!(reason))?;
    let connection = ClientConnection::new(config, ServerName::try_from(NODE_NAME)?)?;
    Ok(Box::new(StreamOwned::new(connection, stream)))
}

fn pairs(name: &str, target: &dyn Target, stream: Box<dyn Both>) -> Result<Vec<Row>> {
    let bytes = random_bytes(LARGE_BYTES, 1);
    // Encoded before anything is measured: the engine does that for any target.
    let mut scratches = [Scratch::default(), Scratch::default()];
    let [of_large, of_small] = &mut scratches;
    let identity = frame::Identity { object: 1, write: 1, offset: 0, replica: 0 };
    let large = frame::encode(identity, Encoding::NONE, &bytes, of_large)?;
    let small = frame::encode(identity, Encoding::NONE, &bytes[..SMALL_BYTES], of_small)?;
    let places: RefCell<Vec<TargetPlace>> = RefCell::default();
    let ours = Side {
        put: Box::new(|length| {
            let place = target.append(if length == LARGE_BYTES { &large } else { &small })?;
            places.borrow_mut().push(place);
            Ok(())
        }),
        get: Box::new(|length| {
            let place = places.borrow().iter().rev().find(|place| place.length as usize >= length).copied();
            let place = place.ok_or_else(|| anyhow!("nothing was written"))?;
            target.read(place, place.length - length as u32, &mut vec![0; length])?;
            Ok(())
        }),
    };
    let stream = RefCell::new(stream);
    let ask = |what: u8, length: usize| -> Result<()> {
        let mut stream = stream.borrow_mut();
        let mut head = vec![what];
        head.extend_from_slice(&(length as u32).to_le_bytes());
        if what == TAKE_REQUEST {
            head.extend_from_slice(&bytes[..length]);
        }
        stream.write_all(&head)?;
        stream.flush()?;
        let mut answer = vec![0; if what == TAKE_REQUEST { 1 } else { length }];
        Ok(stream.read_exact(&mut answer)?)
    };
    let copy =
        Side { put: Box::new(|length| ask(TAKE_REQUEST, length)), get: Box::new(|length| ask(GIVE_REQUEST, length)) };
    let mut sides = [ours, copy];
    let (large_count, small_count) = (Size::get().of(20, 200, 500), Size::get().of(100, 2000, 5000));
    // The target and the threads' buffers are made before anything is measured.
    for side in &mut sides {
        (side.put)(LARGE_BYTES)?;
        (side.get)(LARGE_BYTES)?;
    }
    let mut rows = Vec::new();
    for (verb, is_put) in [("writing", true), ("reading", false)] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..ROUND_COUNT {
            for (side, rates) in sides.iter_mut().zip(&mut rates) {
                let call = if is_put { &mut side.put } else { &mut side.get };
                let begin = Instant::now();
                (0..large_count).try_for_each(|_| call(LARGE_BYTES))?;
                rates.push((large_count * LARGE_BYTES) as f64 / begin.elapsed().as_secs_f64() / 1e6);
                // What was written is given back, so that the memory does not fill.
                target.free(&places.borrow_mut().drain(1..).collect::<Vec<_>>())?;
            }
        }
        let shares = rates[0].iter().zip(&rates[1]).map(|(ours, copy)| ours / copy);
        let share = median(shares.collect::<Vec<_>>());
        let [ours, copy] = rates.map(median);
        rows.push(
            Row::new("remote", format!("{name}, {verb} 1 MiB, share of a bare copy's rate"), share, "")
                .goal(MIN_SHARE_OF_COPY, Better::Higher)
                .details(format!(
                    "{ours:.0} MB/s beside {copy:.0} MB/s, {ROUND_COUNT} rounds in pairs; the target is on tmpfs"
                )),
        );
    }
    for (verb, is_put) in [("writing", true), ("reading", false)] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUND_COUNT {
            for (side, times) in sides.iter_mut().zip(&mut times) {
                let call = if is_put { &mut side.put } else { &mut side.get };
                for _ in 0..small_count {
                    let begin = Instant::now();
                    call(SMALL_BYTES)?;
                    times.push(begin.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        let [ours, copy] = times.map(Times::new);
        ensure!(ours.count() == copy.count(), "the sides differ");
        rows.push(
            Row::new("remote", format!("{name}, {verb} 4 KiB, median"), ours.median(), "us")
                .beside(copy.median(), Better::Lower)
                .goal(MAX_SMALL_MICROSECONDS, Better::Lower)
                .details(format!("99 % below {:.0} us; beside the bare copy", ours.quantile(0.99))),
        );
    }
    Ok(rows)
}
