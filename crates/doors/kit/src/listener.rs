//! [`Listener`]: the socket on which a server listens.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{Shutdown, listen, shutdown};
use terrace_system::{Address, listen_privately};

/// The pause after a failed accept, for example without free descriptors.
pub const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// The most connections that the system accepts before the server does.
pub const ACCEPT_BACKLOG: i32 = 1024;

/// The reasons why a server cannot listen.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address can be reached from other machines, which the server does not allow.
    #[error("{address} can be reached from other machines, {advice}")]
    Open {
        /// The address.
        address: SocketAddr,
        /// The reason why that is not allowed, and what to do.
        advice: &'static str,
    },
    /// The path belongs to a file that is not a socket.
    #[error("{0} is there already and is no socket; name another path")]
    InTheWay(PathBuf),
    /// The system refused the address.
    #[error("listening on {address}: {source}; is it in use, or kept for root? Name another by {}", options(.address))]
    Refused {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

/// The options of our programs that name an address of this kind.
fn options(address: &Address) -> &'static str {
    match address {
        Address::Tcp(_) => "--listen, or for metrics by --metrics",
        Address::Unix(_) => "--unix",
    }
}

/// The machines that may connect to a TCP port.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// Every machine that reaches the address: clients prove who they are, or the user trusts the network.
    Anywhere,
    /// This machine only. The text completes "ADDRESS can be reached from other machines, ": the reason, and what to do.
    ThisMachine(&'static str),
}

/// A socket of the file system, which is removed when it is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

/// The socket on which a server listens.
#[derive(Debug)]
pub enum Listener {
    /// TCP, with the address, whose port the system may have chosen.
    Tcp(TcpListener, SocketAddr),
    /// A socket of the file system, which only its owner may use.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// If the system refuses the address, or machines could connect that may not.
    pub fn bind(address: &Address, reach: Reach) -> Result<Listener, ListenError> {
        match address {
            Address::Tcp(address) => {
                listen_tcp(*address, reach).map(|(listener, address)| Listener::Tcp(listener, address))
            }
            Address::Unix(path) => match listen_privately(path, ACCEPT_BACKLOG) {
                Ok(listener) => Ok(Listener::Unix(listener, SocketFile(path.clone()))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ListenError::InTheWay(path.clone())),
                Err(source) => Err(ListenError::Refused { address: address.clone(), source }),
            },
        }
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> Address {
        match self {
            Listener::Tcp(_, address) => Address::Tcp(*address),
            Listener::Unix(_, SocketFile(path)) => Address::Unix(path.clone()),
        }
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                // Replies are written whole, so delaying them (Nagle's algorithm) gains nothing.
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            Listener::Unix(listener, _) => Ok(listener.accept()?.0.into()),
        }
    }

    /// Interrupts a wait in [`accept`](Self::accept) with an error.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        let socket: BorrowedFd = match self {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        };
        Ok(shutdown(socket, Shutdown::Both)?)
    }
}

/// Listens on a TCP port. Returns its address, too, with the port that the system chose.
pub(crate) fn listen_tcp(address: SocketAddr, reach: Reach) -> Result<(TcpListener, SocketAddr), ListenError> {
    if let Reach::ThisMachine(advice) = reach
        && !address.ip().is_loopback()
    {
        return Err(ListenError::Open { address, advice });
    }
    let bind = || {
        let listener = TcpListener::bind(address)?;
        // The standard library asks for a backlog of 128. Asked again, the system only changes it.
        listen(&listener, ACCEPT_BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bind().map_err(|source| ListenError::Refused { address: Address::Tcp(address), source })
}
