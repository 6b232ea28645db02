//! Where a server listens.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::stream::Listener;

/// Connections that may wait to be taken.
const WAITING: i32 = 128;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket of the file system, which only its owner may use.
    Unix(PathBuf),
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, and whoever reaches it reads and writes everything: 9P has no \
         authentication; listen on 127.0.0.1 and forward the port by ssh, or say --trust-network"
    )]
    Open(SocketAddr),
    /// Something that is no socket has the path.
    #[error("{0} is there already and is no socket; name another path")]
    InTheWay(PathBuf),
    /// The address cannot be had.
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
    /// Listens there; `trusted` where other machines may reach it.
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

/// Removes a socket on which nobody listens any more.
fn clear(path: &Path) -> Result<(), ServeError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(ServeError::InTheWay(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) => {
            // What cannot be removed is in the way when the new one is made, which tells.
            let _ = fs::remove_file(path);
        }
        // It is in use, or nothing is there.
        _ => {}
    }
    Ok(())
}

/// A socket of the owner's alone: others cannot connect before it listens.
fn own(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}
