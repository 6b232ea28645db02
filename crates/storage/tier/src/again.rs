//! Writes frames again whose bytes a device has refused. See [`terrace_system::failed_sync`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use terrace_format::frame::{Header, is_payload_of};
use terrace_system::open_regular;

use super::Place;

/// A file that holds a frame's header, or its payload, and the offset there.
type At<'a> = (&'a File, u64);

/// Opens a file for reading and writing, also if its mode only allows reading.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    match open() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let found = open_regular(path)?;
            let permissions = found.metadata()?.permissions();
            found.set_permissions(PermissionsExt::from_mode(permissions.mode() | 0o200))?;
            let opened = open();
            found.set_permissions(permissions)?;
            opened
        }
        opened => opened,
    }
}

/// Reads a frame and writes the same bytes in place, so that the kernel takes them for unwritten, and the next sync writes them.
/// Returns false, and writes nothing, if the frame is not whole.
///
/// A frame that is whole was complete, so nobody else writes there. If it is freed between the reading and the writing, it
/// only takes space again until its segment is deleted.
pub fn write_again(head: At, payload: At, store: u64, place: Place, header: &Header) -> io::Result<bool> {
    let mut bytes = vec![0; header.stored_len as usize];
    let is_whole = match payload.0.read_exact_at(&mut bytes, payload.1) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => false,
        read => read.map(|()| is_payload_of(header, &bytes))?,
    };
    let mut start = vec![0; header.written_len()];
    head.0.read_exact_at(&mut start, head.1)?;
    // Read after the payload: a frame that was freed meanwhile has no header now, and nothing of it is missed.
    if Header::read(&start, store, place).is_err() {
        return Ok(true);
    }
    if is_whole {
        payload.0.write_all_at(&bytes, payload.1)?;
        head.0.write_all_at(&start, head.1)?;
    }
    Ok(is_whole)
}

/// The error for a file with frames whose bytes are neither on the disk nor in memory.
pub fn lost(path: &Path) -> io::Error {
    let path = path.display();
    let reason = format!(
        "bytes of {path} did not reach the disk when an earlier sync failed; `terrace scrub --repair` replaces bad replicas, and names the objects that are lost, which have to be removed or written again"
    );
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
