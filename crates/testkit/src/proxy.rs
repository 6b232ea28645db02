//! A port that stays the same while the server behind it is killed and started again, and that can be cut off.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct State {
    /// The server's port; none while it is cut off.
    server: Option<u16>,
    /// Both ends of each connection, by its number.
    open: HashMap<u64, [TcpStream; 2]>,
    /// How many connections there were.
    count: u64,
}

/// Hands bytes on between clients and a server.
pub struct Proxy {
    /// The port for clients.
    pub port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Starts one that leads nowhere yet.
    ///
    /// # Panics
    /// If the system has no port.
    pub fn start() -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client whose server is not there sees its connection end.
                let _ = connect(&shared, client);
            }
        });
        Proxy { port, state }
    }

    /// Leads connections to the server on this port from now on.
    ///
    /// # Panics
    /// If a thread of it has panicked.
    pub fn lead_to(&self, server: u16) {
        self.state.lock().expect("no thread has panicked").server = Some(server);
    }

    /// Ends all connections, in the middle of whatever they carry, and takes no more.
    ///
    /// # Panics
    /// If a thread of it has panicked.
    pub fn cut_off(&self) {
        let mut state = self.state.lock().expect("no thread has panicked");
        state.server = None;
        for stream in state.open.drain().flat_map(|(_, ends)| ends) {
            // The other side may have ended it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(shared: &Arc<Mutex<State>>, client: TcpStream) -> io::Result<()> {
    // Held until both ends are noted, so that no connection escapes `cut_off`.
    let mut state = shared.lock().expect("no thread has panicked");
    let Some(port) = state.server else { return Ok(()) };
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let (number, ends) = (state.count, [client.try_clone()?, server.try_clone()?]);
    let (to_server, from_client) = (server.try_clone()?, client.try_clone()?);
    state.count += 1;
    state.open.insert(number, ends);
    let shared = shared.clone();
    std::thread::spawn(move || {
        let there = std::thread::spawn(move || hand_on(from_client, to_server));
        hand_on(server, client);
        let _ = there.join();
        shared.lock().expect("no thread has panicked").open.remove(&number);
    });
    Ok(())
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
