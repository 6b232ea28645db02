//! Proxies between a node and the members of etcd, which lose answers and cut connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use terrace_testkit::Random;

/// After it has lost an answer, a connection loses what comes within this time, and ends.
const LOSING_TIME: Duration = Duration::from_millis(30);

/// One proxy for each member, in order.
pub struct Proxies {
    pub servers: Vec<String>,
    network: Arc<Network>,
}

#[derive(Default)]
struct Network {
    is_cut: AtomicBool,
    /// One in this many pieces of answers is lost; none if this is 0.
    loses_one_in: AtomicU64,
    lost: AtomicU64,
    seed: AtomicU64,
    /// Connections before this one pass nothing on.
    held: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxies {
    pub fn start(ports: &[u16], seed: u64) -> Proxies {
        let network = Arc::new(Network { seed: AtomicU64::new(seed), ..Network::default() });
        let servers = ports.iter().map(|port| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let server = format!("http://{}", listener.local_addr().unwrap());
            let (port, network) = (*port, network.clone());
            thread::spawn(move || {
                for stream in listener.incoming() {
                    // A member that is down ends the connection.
                    let _ = network.accept(stream.unwrap(), port);
                }
            });
            server
        });
        Proxies { servers: servers.collect(), network }
    }

    /// Ends all connections, and accepts none until told otherwise.
    pub fn cut(&self, is_cut: bool) {
        self.network.is_cut.store(is_cut, Ordering::SeqCst);
        for stream in self.network.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets the present connections stay open, and pass no answers on.
    pub fn hold(&self) {
        self.network.held.store(self.network.seed.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub fn lose_one_in(&self, times: u64) {
        self.network.loses_one_in.store(times, Ordering::SeqCst);
    }

    /// The number of connections that lost an answer.
    pub fn lost(&self) -> u64 {
        self.network.lost.load(Ordering::SeqCst)
    }
}

impl Network {
    fn accept(self: &Arc<Network>, client: TcpStream, port: u16) -> std::io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let mut open = self.open.lock().unwrap();
        if self.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        open.extend([client.try_clone()?, server.try_clone()?]);
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            // Either end may break.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let network = self.clone();
        thread::spawn(move || {
            let _ = network.answer(&server, &client);
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    /// Passes answers on, until one is lost.
    fn answer(&self, mut server: &TcpStream, mut client: &TcpStream) -> std::io::Result<()> {
        let connection = self.seed.fetch_add(1, Ordering::SeqCst);
        let mut random = Random::new(connection);
        let mut bytes = [0; 16 << 10];
        loop {
            let length = server.read(&mut bytes)?;
            let times = self.loses_one_in.load(Ordering::SeqCst);
            if length == 0 {
                return Ok(());
            }
            if times > 0 && random.once_in(times) {
                self.lost.fetch_add(1, Ordering::SeqCst);
                thread::sleep(LOSING_TIME);
                return Ok(());
            }
            if connection >= self.held.load(Ordering::SeqCst) {
                client.write_all(&bytes[..length])?;
            }
        }
    }
}
