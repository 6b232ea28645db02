//! The address on which a server listens.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::stream::Listener;

/// The backlog of connections that are not accepted yet.
const ACCEPT_BACKLOG: i32 = 128;

/// The address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket of the file system, which only its owner may use.
    Unix(PathBuf),
}

/// The reasons why a server cannot listen.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, and whoever reaches it reads and writes everything: 9P has no \
         authentication; listen on 127.0.0.1 and forward the port by ssh, or say --trust-network"
    )]
    Open(SocketAddr),
    /// The path belongs to a file that is not a socket.
    #[error("{0} is there already and is no socket; name another path")]
    InTheWay(PathBuf),
    /// The system refused the address.
    #[error("listening on {address}: {source}; is it in use, or kept for root? Name another")]
    Refused {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    /// Listens on the address. `trusted` allows addresses that other machines can reach.
    pub(crate) fn listen(&self, trusted: bool) -> Result<Listener, ServeError> {
        let refused = |source| ServeError::Refused { address: self.to_string(), source };
        match self {
            Address::Tcp(address) if !address.ip().is_loopback() && !trusted => Err(ServeError::Open(*address)),
            Address::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp).map_err(refused),
            Address::Unix(path) => {
                clear(path)?;
                own(path).map(Listener::Unix).map_err(refused)
            }
        }
    }
}

/// Removes a socket without a listener.
fn clear(path: &Path) -> Result<(), ServeError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(ServeError::InTheWay(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) => {
            // If the removal fails, creating the new socket fails too and reports the reason.
            let _ = fs::remove_file(path);
        }
        // The socket is in use, or does not exist.
        _ => {}
    }
    Ok(())
}

/// Creates a socket for the owner alone: permissions are set before it listens, so no other user can connect.
fn own(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, ACCEPT_BACKLOG)?;
    Ok(socket.into())
}
