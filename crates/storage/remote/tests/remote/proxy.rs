//! A proxy that breaks connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The faults of the proxy. The atomics are relaxed: tests change them between requests.
#[derive(Default)]
pub struct Plan {
    /// The connection is cut after this many bytes of the client, if not 0.
    pub cut_requests: AtomicU64,
    /// The connection is cut after this many bytes of the node, if not 0.
    pub cut_answers: AtomicU64,
    /// Nothing of the node is passed on.
    pub is_silent: AtomicBool,
    /// This byte of the node's is changed, if not 0.
    pub flip: AtomicU64,
}

/// Forwards connections to a node.
pub fn start(to: SocketAddr) -> (SocketAddr, Arc<Plan>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, plan) = (listener.local_addr().unwrap(), Arc::new(Plan::default()));
    let of_thread = plan.clone();
    // The threads end with the process, or with their connections.
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(node) = TcpStream::connect(to) else { continue };
            let (client_end, node_end) = (client.try_clone().unwrap(), node.try_clone().unwrap());
            let plan = of_thread.clone();
            let requests = plan.clone();
            thread::spawn(move || pass(client, node_end, &requests.cut_requests, None));
            thread::spawn(move || pass(node, client_end, &plan.cut_answers, Some(&plan)));
        }
    });
    (address, plan)
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicU64, plan: Option<&Plan>) {
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0u64;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let limit = match cut.load(Ordering::Relaxed) {
            0 => u64::MAX,
            limit => limit,
        };
        let take = (limit.saturating_sub(passed) as usize).min(length);
        if let Some(plan) = plan {
            if plan.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            let flip = plan.flip.load(Ordering::Relaxed);
            if flip != 0 && (passed..passed + take as u64).contains(&flip) {
                buffer[(flip - passed) as usize] ^= 1;
            }
        }
        if to.write_all(&buffer[..take]).is_err() || take < length {
            break;
        }
        passed += take as u64;
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
