//! Makes the kernel read cached files in longer requests.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How far the kernel reads ahead. Longer requests cost less each byte; but where a mapped file is touched here and there, the kernel reads
/// that much around each place.
const READ_AHEAD_KIB: u32 = 512;

/// Sets how far the kernel reads ahead in the file system that is mounted on a directory, and is answered by now. The kernel lets a server ask
/// for no more than 128 KiB; root may set more.
pub fn lengthen(mounted: &Path) {
    if let Err(error) = try_lengthen(mounted) {
        tracing::debug!(path = %mounted.display(), %error, "the kernel reads ahead no further than by itself");
    }
}

fn try_lengthen(mounted: &Path) -> io::Result<()> {
    let device = fs::metadata(mounted)?.dev();
    let settings = format!("/sys/class/bdi/{}:{}/read_ahead_kb", libc::major(device), libc::minor(device));
    fs::write(settings, READ_AHEAD_KIB.to_string())
}
