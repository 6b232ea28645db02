//! [`LimitedLink`]: a node's network link, as a proxy of this program in front of its targets.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

/// Bytes that pass at once.
const CHUNK_BYTES: usize = 64 << 10;
/// A link that was idle, or whose threads woke up late, makes up for at most this time.
const MAX_CREDIT: Duration = Duration::from_millis(10);

/// A limit for the bytes of all connections to a node, in each direction. It ends when it is dropped; its connections end with their
/// sides.
pub struct LimitedLink {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
}

impl LimitedLink {
    /// Forwards connections to `to`.
    pub fn start(to: SocketAddr, bytes_per_second: f64) -> io::Result<LimitedLink> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let link = LimitedLink { address: listener.local_addr()?, is_stopping: Arc::default() };
        let is_stopping = link.is_stopping.clone();
        let paces = [(); 2].map(|()| Arc::new(LinkPace { bytes_per_second, is_free_at: Mutex::new(Instant::now()) }));
        thread::spawn(move || {
            // Relaxed: the connection that wakes this thread comes after the flag is set.
            for client in listener.incoming().take_while(|_| !is_stopping.load(Ordering::Relaxed)) {
                // Nodes that are down end the connection, as they would without the link.
                let _ = client.and_then(|client| forward(client, to, &paces));
            }
        });
        Ok(link)
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for LimitedLink {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the thread. If it cannot be reached, it ends with the process.
        let _ = TcpStream::connect(self.address);
    }
}

/// The bytes of one direction, one after the other.
struct LinkPace {
    bytes_per_second: f64,
    /// The end of the transfer of the last chunk. Held for a moment only.
    is_free_at: Mutex<Instant>,
}

impl LinkPace {
    /// Waits until these bytes have passed.
    fn pass(&self, bytes: usize) {
        let now = Instant::now();
        let end = {
            let mut is_free_at = self.is_free_at.lock();
            let begin = now.checked_sub(MAX_CREDIT).map_or(now, |earliest| earliest.max(*is_free_at));
            *is_free_at = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
            *is_free_at
        };
        thread::sleep(end.saturating_duration_since(now));
    }
}

fn forward(client: TcpStream, to: SocketAddr, paces: &[Arc<LinkPace>; 2]) -> io::Result<()> {
    let node = TcpStream::connect(to)?;
    client.set_nodelay(true)?;
    node.set_nodelay(true)?;
    let directions = [(client.try_clone()?, node.try_clone()?), (node, client)];
    for ((from, to), pace) in directions.into_iter().zip(paces.clone()) {
        thread::spawn(move || {
            // Either side may break. Then the other one must notice it.
            let _ = copy(&from, &to, &pace);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, pace: &LinkPace) -> io::Result<()> {
    let mut bytes = vec![0; CHUNK_BYTES];
    loop {
        let length = from.read(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        pace.pass(length);
        to.write_all(&bytes[..length])?;
    }
}
