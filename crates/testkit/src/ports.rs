//! Ports of this machine that nobody listens on.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Below those that the system gives to clients, and to servers that take any port: one that it has just found free would be given to the
/// next of them before its server listens.
const SERVER_PORTS: Range<u16> = 12_000..32_000;
/// How many ports lie between those at which two processes with successive numbers begin to look.
const PROCESS_STEP: usize = 97;

/// How many ports this process has tried.
static TRIED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns different free ports of loopback, which no other call in this process returns.
///
/// # Panics
/// If the system has none.
pub fn free_ports(count: usize) -> Vec<u16> {
    let start = std::process::id() as usize * PROCESS_STEP;
    let tries = std::iter::repeat_with(|| start + TRIED_COUNT.fetch_add(1, Ordering::Relaxed)).take(SERVER_PORTS.len());
    let ports = tries.map(|at| SERVER_PORTS.start + (at % SERVER_PORTS.len()) as u16);
    let free: Vec<u16> =
        ports.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).take(count).collect();
    assert_eq!(free.len(), count, "free ports");
    free
}
