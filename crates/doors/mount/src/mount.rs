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

use crate::stale::Stale;
use crate::system::System;

/// What mounts are mounts of, as the kernel lists it.
const SOURCE: &str = "terrace";
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
        clear_dead(&path).map_err(refused)?;
        if !fs::metadata(&path).map_err(refused)?.is_dir() {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(SOURCE.into()),
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
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.join() {
            // The kernel ended the connection while a thread was fetching a request: a way to be unmounted like others.
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("a thread of the mount panicked")),
        }
    }

    /// Writes what is kept back, and takes the mount off the tree of files. What is open stays usable until it is closed
    /// or this process ends.
    pub fn end(files: &Files, path: &Path) -> io::Result<()> {
        let flushed = files.flush().map_err(io::Error::other);
        let ended = take_off(path);
        flushed.and(ended)
    }
}

/// Takes a mount off the tree of files.
fn take_off(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // Somebody was quicker.
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(Errno::EPERM) => fusermount(path),
        Err(e) => Err(e.into()),
    }
}

/// Takes off what is left of mounts whose server was killed. Others' mounts stay.
fn clear_dead(path: &Path) -> io::Result<()> {
    // Attributes the kernel may still have; this it asks the server.
    while let Err(error) = statvfs(path) {
        if error != Errno::ENOTCONN || !is_ours(path)? {
            return Err(error.into());
        }
        tracing::warn!(path = %path.display(), "a mount was here whose server was killed; it is taken off");
        take_off(path)?;
    }
    Ok(())
}

/// Whether the last that was mounted on a directory is a store.
fn is_ours(path: &Path) -> io::Result<bool> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        other => vec![*other],
    };
    let path: Vec<u8> = path.as_os_str().as_bytes().iter().flat_map(escape).collect();
    // The fifth word is the place; behind a lone dash come the kind, `fuse` or `fuse.terrace`, and the source.
    let ours = |line: &[u8]| -> Option<bool> {
        let mut words = line.split(|&byte| byte == b' ');
        let here = words.nth(4)? == path;
        let mut words = words.skip_while(|word| *word != b"-").skip(1);
        let (kind, source) = (words.next()?, words.next()?);
        here.then(|| kind.starts_with(b"fuse") && source == SOURCE.as_bytes())
    };
    let mounts = fs::read("/proc/self/mountinfo")?;
    Ok(mounts.split(|&byte| byte == b'\n').filter_map(ours).next_back().unwrap_or(false))
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
