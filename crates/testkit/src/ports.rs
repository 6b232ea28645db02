//! Ports of this machine that nobody listens on.

use std::net::{Ipv4Addr, TcpListener};

/// Returns different free ports of loopback. Another process may take one before the caller does.
///
/// # Panics
/// If the system has none.
pub fn free_ports(count: usize) -> Vec<u16> {
    // All are taken before the first is given back, so they differ.
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let listeners: Vec<TcpListener> = (0..count).map(|_| listen()).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("its address").port()).collect()
}
