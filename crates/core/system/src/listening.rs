//! Where a server listens: a TCP port, or a socket of the file system.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

/// The address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket of the file system, which only its owner may use.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Listens on a socket of the file system for its owner alone, with room for `backlog` connections that are not accepted yet. Replaces a
/// socket without a listener.
///
/// # Errors
/// `AlreadyExists` if the path is that of anything but a socket.
pub fn listen_privately(path: &Path, backlog: i32) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) => {
            // If the removal fails, creating the new socket fails too and reports the reason.
            let _ = fs::remove_file(path);
        }
        // The socket is in use, or does not exist.
        _ => {}
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before it listens, so that no other user can connect.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, backlog)?;
    Ok(socket.into())
}
