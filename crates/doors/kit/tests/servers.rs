//! Servers whose protocol is one byte: it comes back, or its connection panics.

#![allow(clippy::unwrap_used)]

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use terrace_kit::{Address, Connection, ListenError, Reach, TaskOptions, TaskServer, ThreadOptions, ThreadServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The byte that lets a connection panic.
const FATAL_BYTE: u8 = b'!';
const THREAD_OPTIONS: ThreadOptions =
    ThreadOptions { name: "test", max_connections: 1, idle: None, drain_time: Duration::from_millis(100) };

fn in_threads(address: &Address) -> Result<ThreadServer, ListenError> {
    ThreadServer::begin(address, Reach::ThisMachine("use another"), THREAD_OPTIONS, |mut connection: &Connection| {
        connection.begin_request();
        let mut byte = [0];
        connection.read_exact(&mut byte)?;
        assert_ne!(byte, [FATAL_BYTE], "the client asks for a panic");
        connection.write_all(&byte)
    })
}

fn in_tasks(address: SocketAddr) -> Result<TaskServer, ListenError> {
    let drain_time = Duration::from_secs(60);
    let options = TaskOptions { name: "test", threads: None, max_waiting_threads: 1, max_connections: 1, drain_time };
    TaskServer::begin(address, Reach::ThisMachine("use another"), options, |mut stream, _| async move {
        let byte = stream.read_u8().await.unwrap();
        assert_ne!(byte, FATAL_BYTE, "the client asks for a panic");
        stream.write_u8(byte).await.unwrap();
    })
}

/// Sends a byte, and returns what comes back.
fn ask(address: &str, byte: u8) -> io::Result<Vec<u8>> {
    let (mut client, mut answer) = (TcpStream::connect(address)?, Vec::new());
    client.write_all(&[byte])?;
    client.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn connections_that_panic_give_their_room_back_and_do_not_keep_a_server_from_ending() {
    let (mut threads, mut tasks) = (in_threads(&Address::Tcp(ANY_PORT)).unwrap(), in_tasks(ANY_PORT).unwrap());
    let addresses = [threads.address().to_string(), tasks.address().to_string()];
    for address in &addresses {
        for byte in [FATAL_BYTE, b'a', FATAL_BYTE, b'b'] {
            let answer: &[u8] = if byte == FATAL_BYTE { &[] } else { &[byte] };
            assert_eq!(ask(address, byte).unwrap(), answer);
        }
    }
    threads.end();
    tasks.end();
    for address in &addresses {
        assert!(ask(address, b'a').is_err(), "it has ended");
    }
}

#[test]
fn a_request_that_hangs_does_not_keep_a_server_from_ending() {
    let barrier = Arc::new(Barrier::new(2));
    let waits = barrier.clone();
    let hang = move |_: &Connection| {
        waits.wait();
        waits.wait();
        Ok(())
    };
    let mut server =
        ThreadServer::begin(&Address::Tcp(ANY_PORT), Reach::ThisMachine("use another"), THREAD_OPTIONS, hang).unwrap();
    let mut client = TcpStream::connect(server.address().to_string()).unwrap();
    barrier.wait();
    server.end();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "no reply");
    barrier.wait();
}

#[test]
fn errors_say_why_an_address_is_refused_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, file) = (Address::Unix(dir.path().join("socket")), dir.path().join("file"));
    std::fs::write(&file, "").unwrap();
    let (on_port, on_socket) = (in_threads(&Address::Tcp(ANY_PORT)).unwrap(), in_threads(&socket).unwrap());
    let Address::Tcp(port) = *on_port.address() else { unreachable!("it listens at a port") };
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for (refused, expected) in [
        (in_threads(&Address::Tcp(port)).map(drop), "in use, or kept for root? Name another by --listen"),
        (in_tasks(port).map(drop), "in use, or kept for root? Name another by --listen"),
        (in_threads(&socket).map(drop), "in use, or kept for root? Name another by --unix"),
        (in_threads(&Address::Unix(file)).map(drop), "is no socket; name another path"),
        (in_threads(&Address::Tcp(everywhere)).map(drop), "0.0.0.0:0 can be reached from other machines, use another"),
        (in_tasks(everywhere).map(drop), "0.0.0.0:0 can be reached from other machines, use another"),
    ] {
        let reason = refused.unwrap_err().to_string();
        assert!(reason.contains(expected), "{reason}");
    }
    drop(on_socket);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the socket is removed, and the file is not");
}
