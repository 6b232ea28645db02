//! The folder on a host's own disk.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use terrace::config::Bytes;
use terrace::{Locked, replace_durably};
use terrace_remote::Identity;

use super::config::{SECRET_FILE, TARGET_NAME};
use super::folder::{SharedFolder, make_private};
use super::meeting::HeldTarget;
use crate::output::{note, path_name};

/// The file that names the target here.
const HELD_FILE: &str = "held.json";

/// The folder on a host's own disk: the store's directory, the host's target, and the data of etcd.
pub struct LocalFolder {
    path: PathBuf,
    /// Held as long as the job runs on this host.
    _lock: Locked,
}

/// The file by which the node serves the host's target.
#[derive(Serialize)]
struct Serving {
    listen: SocketAddr,
    secret: PathBuf,
    certificate: PathBuf,
    target: [Served; 1],
}

#[derive(Serialize)]
struct Served {
    name: &'static str,
    path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<Bytes>,
}

impl LocalFolder {
    /// Uses this folder, which no other job uses now.
    pub fn open(path: &Path) -> Result<LocalFolder> {
        let path = std::path::absolute(path).context("the working directory")?;
        make_private(&path, true)?;
        let file = path.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&file);
        let lock = Locked::at_once(file.with_context(|| format!("writing into {}", path_name(&path)))?);
        let Some(lock) = lock.with_context(|| format!("locking {}", path_name(&path)))? else {
            bail!("another `terrace cluster up` uses {}; end it, or name another folder", path_name(&path));
        };
        let local = LocalFolder { path, _lock: lock };
        if local.store().exists() && !local.path.join(HELD_FILE).exists() {
            bail!("{} is no job's store; name another folder in --local", path_name(&local.store()));
        }
        Ok(local)
    }

    /// Removes the log and the catalog that an earlier job has left here. The store's are in the shared folder.
    pub fn begin(&self) -> Result<()> {
        let file = self.path.join(HELD_FILE);
        if !file.exists() {
            // The store that is made here is a job's.
            write(&file, "null")?;
        }
        [self.store(), self.path.join("etcd")].iter().try_for_each(|folder| remove_folder(folder))
    }

    /// Returns the target that an earlier job has left here.
    pub fn held(&self) -> Result<Option<HeldTarget>> {
        let file = self.path.join(HELD_FILE);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read(&file).with_context(|| format!("reading {}", path_name(&file)))?;
        let held: Option<HeldTarget> = serde_json::from_slice(&text).with_context(|| path_name(&file))?;
        Ok(held.filter(|_| self.target().exists()))
    }

    /// Makes room for a target, unless it is the one that is here.
    pub fn hold(&self, new: HeldTarget) -> Result<()> {
        if let Some(held) = self.held()?.filter(|held| *held != new) {
            if held.store != new.store {
                bail!(
                    "{} holds replicas of another store; remove it, or name another folder in --local",
                    path_name(&self.target())
                );
            }
            note(&format!(
                "removed {}: another job went on without what it holds, and has named what was only there",
                path_name(&self.target())
            ));
            remove_folder(&self.target())?;
        }
        // Before the target is made: it is known from its first frame on.
        write(&self.path.join(HELD_FILE), &serde_json::to_string(&new)?)
    }

    fn target(&self) -> PathBuf {
        self.path.join("target")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store's directory.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The certificate of the host's target.
    pub fn identity(&self) -> Result<Identity> {
        Identity::open(&self.path.join("tls")).with_context(|| format!("the certificate in {}", path_name(&self.path)))
    }

    /// Writes the file by which the node serves the host's target, and returns its path.
    pub fn describe_target(
        &self,
        folder: &SharedFolder,
        listen: SocketAddr,
        capacity: Option<Bytes>,
    ) -> Result<PathBuf> {
        let (secret, certificate) = (folder.path(SECRET_FILE), self.path.join("tls"));
        let target = Served { name: TARGET_NAME, path: self.target(), capacity };
        let text = toml::to_string(&Serving { listen, secret, certificate, target: [target] });
        let path = self.path.join("targets.toml");
        write(&path, &text.context("describing the target of this host")?)?;
        Ok(path)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    replace_durably(path, text).with_context(|| format!("writing {}", path_name(path)))
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path_name(path)))
        }
        _ => Ok(()),
    }
}

/// Finds ports that nothing listens on. Until etcd and the node listen there, somebody else may take one; then their start fails.
pub fn find_ports<const COUNT: usize>(address: IpAddr) -> Result<[u16; COUNT]> {
    // All at once, so that no port is found twice.
    let listeners = std::array::from_fn::<_, COUNT, _>(|_| TcpListener::bind((address, 0)));
    let mut ports = [0; COUNT];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        let address = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok());
        *port = address
            .with_context(|| format!("this host takes no connections at {address:?}; name another --host"))?
            .port();
    }
    Ok(ports)
}
