//! [`Mount`]: a mounted store.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statvfs::statvfs;
use terrace::Files;

use crate::read_ahead;
use crate::stale::Stale;
use crate::system::System;

/// The source of the mount in the kernel's mount table.
const MOUNT_SOURCE: &str = "terrace";
/// The number of threads that answer requests.
const ANSWER_THREADS: usize = 4;

/// The reasons why a store cannot be mounted.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel does not support FUSE.
    #[error(
        "/dev/fuse is missing; load the module (`modprobe fuse`), or start the container with `--device /dev/fuse`; \
         everything but mounting works without it"
    )]
    NoDevice,
    /// The user has no permission for the FUSE device.
    #[error("/dev/fuse cannot be opened ({0}); ask for read and write access to it, as distributions give to all")]
    Device(io::Error),
    /// Mounting failed.
    #[error(
        "mounting on {path}: {source}; it must be a directory, and without root either `fusermount3` (package fuse3) must be installed or `--run` be used"
    )]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A mounted store. Dropping it unmounts it.
pub struct Mount {
    files: Files,
    path: PathBuf,
    session: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts a store's files on a directory.
    pub fn begin(files: &Files, path: &Path) -> Result<Mount, MountError> {
        match File::options().read(true).write(true).open("/dev/fuse") {
            Ok(_) => {}
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
                return Err(MountError::NoDevice);
            }
            Err(e) => return Err(MountError::Device(e)),
        }
        let refused = |source| MountError::Refused { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(refused)?;
        detach_dead_mounts(&path).map_err(refused)?;
        if !fs::metadata(&path).map_err(refused)?.is_dir() {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(MOUNT_SOURCE.into()),
            MountOption::Subtype("terrace".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        // Admit other users only for root, for whom no permission is needed.
        config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(ANSWER_THREADS);
        config.clone_fd = true;
        let stale = Arc::new(Stale::default());
        let session = Session::new(System::new(files, stale.clone()), &path, &config).map_err(refused)?;
        stale.start_notifier(session.notifier()).map_err(refused)?;
        let run = std::thread::Builder::new().name("terrace-mount".into()).spawn(move || session.run());
        let session = Some(run.map_err(refused)?);
        read_ahead::lengthen(&path);
        Ok(Mount { files: files.clone(), path, session })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the store is unmounted, by any process.
    pub fn wait(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.join() {
            // The kernel closed the connection while a thread was fetching a request: a regular way to be unmounted.
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("a thread of the mount panicked")),
        }
    }

    /// Writes buffered data and detaches the mount. Open files stay usable until they are closed or this process ends.
    pub fn end(files: &Files, path: &Path) -> io::Result<()> {
        let flushed = files.flush().map_err(io::Error::other);
        let ended = detach_mount(path);
        flushed.and(ended)
    }
}

/// Detaches a mount from the file tree.
fn detach_mount(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // Another process has unmounted it already.
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(Errno::EPERM) => fusermount(path),
        Err(e) => Err(e.into()),
    }
}

/// Detaches mounts left behind by a killed server. Mounts of other file systems stay.
fn detach_dead_mounts(path: &Path) -> io::Result<()> {
    // The kernel may still cache attributes, but it asks the server for this.
    while let Err(error) = statvfs(path) {
        if error != Errno::ENOTCONN || !is_store_mount(path)? {
            return Err(error.into());
        }
        tracing::warn!(path = %path.display(), "a mount was here whose server was killed; it is taken off");
        detach_mount(path)?;
    }
    Ok(())
}

/// Whether the topmost mount on a directory is a store.
fn is_store_mount(path: &Path) -> io::Result<bool> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        other => vec![*other],
    };
    let path: Vec<u8> = path.as_os_str().as_bytes().iter().flat_map(escape).collect();
    // The fifth field is the mount point; after a lone dash follow the type, `fuse` or `fuse.terrace`, and the source.
    let ours = |line: &[u8]| -> Option<bool> {
        let mut words = line.split(|&byte| byte == b' ');
        let here = words.nth(4)? == path;
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        let (kind, source) = (words.next()?, words.next()?);
        here.then(|| kind.starts_with(b"fuse") && source == MOUNT_SOURCE.as_bytes())
    };
    let mounts = fs::read("/proc/self/mountinfo")?;
    Ok(mounts.split(|&byte| byte == b'\n').filter_map(ours).next_back().unwrap_or(false))
}

/// Unmounts through the helper, for users who may not unmount directly.
fn fusermount(path: &Path) -> io::Result<()> {
    let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(path).status()?;
    match status.success() || !is_mounted(path) {
        true => Ok(()),
        false => Err(io::Error::other(format!("fusermount3 failed: {status}; run fusermount3 -u -z yourself"))),
    }
}

/// Whether a file system is mounted on a directory: its device then differs from its parent's.
fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    match (device(path), device(&path.join(".."))) {
        (Ok(own), Ok(above)) => own != above,
        // A mount whose server has ended cannot be examined.
        _ => true,
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.is_some()
            && let Err(error) = Mount::end(&self.files, &self.path)
        {
            tracing::error!(%error, path = %self.path.display(), "unmounting failed");
        }
    }
}
