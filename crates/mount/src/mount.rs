//! [`Mount`]: a mounted store.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};
use nix::mount::{MntFlags, umount2};
use terrace::Files;

use crate::stale::Stale;
use crate::system::System;

/// Threads that answer requests.
const THREADS: usize = 4;

/// Why a store cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel offers no FUSE.
    #[error(
        "/dev/fuse is missing; load the module (`modprobe fuse`), or start the container with `--device /dev/fuse`; \
         everything but mounting works without it"
    )]
    NoDevice,
    /// The device is there, but not for this user.
    #[error("/dev/fuse cannot be opened ({0}); ask for read and write access to it, as distributions give to all")]
    Device(io::Error),
    /// Mounting failed.
    #[error(
        "mounting on {path}: {source}; it must be a directory, and without root either `fusermount3` (package fuse3) must be installed or `--run` be used"
    )]
    Refused {
        /// Where it was to be mounted.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A mounted store. It is unmounted when this is dropped.
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
        if !path.is_dir() {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("terrace".into()),
            MountOption::Subtype("terrace".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
        ];
        // Others are let in where that needs nobody's leave: by root.
        config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let stale = Arc::new(Stale::default());
        let session = Session::new(System::new(files, stale.clone()), &path, &config).map_err(refused)?;
        stale.tell(session.notifier()).map_err(refused)?;
        let run = std::thread::Builder::new().name("terrace-mount".into()).spawn(move || session.run());
        let session = Some(run.map_err(refused)?);
        Ok(Mount { files: files.clone(), path, session })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until it is unmounted, by whomever.
    pub fn wait(&mut self) -> io::Result<()> {
        match self.session.take() {
            Some(session) => session.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked"))),
            None => Ok(()),
        }
    }

    /// Writes what is kept back, and takes the mount off the tree of files. What is open stays usable until it is closed
    /// or this process ends.
    pub fn end(files: &Files, path: &Path) -> io::Result<()> {
        let flushed = files.flush().map_err(io::Error::other);
        let ended = match umount2(path, MntFlags::MNT_DETACH) {
            // Somebody was quicker.
            Ok(()) | Err(nix::errno::Errno::EINVAL) => Ok(()),
            Err(nix::errno::Errno::EPERM) => fusermount(path),
            Err(e) => Err(e.into()),
        };
        flushed.and(ended)
    }
}

/// Unmounts as somebody who may not do it himself.
fn fusermount(path: &Path) -> io::Result<()> {
    let status = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(path).status()?;
    match status.success() || !is_mounted(path) {
        true => Ok(()),
        false => Err(io::Error::other(format!("fusermount3 failed: {status}; run fusermount3 -u -z yourself"))),
    }
}

/// Whether something is mounted on a directory: it lies on another device than what is above it.
fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    match (device(path), device(&path.join(".."))) {
        (Ok(own), Ok(above)) => own != above,
        // A mount that nobody answers for cannot be looked at.
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
