//! The places in which stores keep their own data, where users may not read or write files.

use std::path::{Path, PathBuf};

use terrace_system::real_path;
use terrace_tier::MARKER_FILE;

use super::Store;
use crate::error::{Error, Result};
use crate::home::is_home;

/// The service whose blobs are files of this machine.
pub(super) const FILES_SERVICE: &str = "fs";

/// The folders in which a store keeps its own files, without symbolic links.
pub struct OwnPlaces(Vec<PathBuf>);

impl OwnPlaces {
    /// Returns the places of a store.
    pub fn of(store: &Store) -> OwnPlaces {
        OwnPlaces(store.own_directories().map(real_path).collect())
    }

    /// Checks that a path is in none of them. Links in it are not followed.
    ///
    /// # Errors
    /// [`Error::Store`] names the folder.
    fn check_outside(&self, real: &Path) -> Result<()> {
        match self.0.iter().find(|own| real.starts_with(own)) {
            Some(own) => refuse(real, format!("the store keeps its own files in {}", own.display())),
            None => Ok(()),
        }
    }

    /// Checks that a path, of a folder or a file, leads into none of them, nor into a target that the store knows by another path, nor into the directory or a
    /// target of another store.
    ///
    /// # Errors
    /// [`Error::Store`] names the folder.
    pub fn check(&self, path: &Path) -> Result<()> {
        let real = real_path(path);
        self.check_below(&real, Path::new(""))
    }

    /// Checks that a folder, whose contents are to be shown as they are, contains none of them.
    ///
    /// # Errors
    /// [`Error::Store`] names the folder.
    pub fn check_contents(&self, folder: &Path) -> Result<()> {
        let real = real_path(folder);
        match self.0.iter().find(|own| own.starts_with(&real)) {
            Some(own) => refuse(&real, format!("it contains {}, where the store keeps its own files", own.display())),
            None => Ok(()),
        }
    }

    /// Like [`OwnPlaces::check`], for a path below a folder that was checked. Links in it are not followed.
    ///
    /// # Errors
    /// [`Error::Store`] names the folder.
    pub fn check_below(&self, real: &Path, checked: &Path) -> Result<()> {
        self.check_outside(real)?;
        match real
            .ancestors()
            .take_while(|folder| *folder != checked)
            .find(|folder| folder.join(MARKER_FILE).exists() || is_home(folder))
        {
            Some(own) => refuse(real, format!("a store keeps its own files in {}", own.display())),
            None => Ok(()),
        }
    }

    /// Checks that no store keeps its own blobs at the root of a service, or in a folder above.
    ///
    /// # Errors
    /// [`Error::Store`] names the folder. [`Error::Io`] if the service cannot be reached.
    #[cfg(feature = "object")]
    pub fn check_service(&self, service: &terrace_tier::Service) -> Result<()> {
        if service.name == FILES_SERVICE {
            self.check_outside(&real_path(service.root.as_ref()))?;
        }
        match terrace_tier::Blobs::find_owner(service) {
            Ok(Some(owner)) => {
                let place = format!("{}:{owner}", service.name);
                refuse(service.to_string().as_ref(), format!("a store keeps its own blobs in {place}"))
            }
            Ok(None) => Ok(()),
            Err(cause) => Err(Error::Io { context: format!("looking at {service}"), cause }),
        }
    }
}

fn refuse(path: &Path, why: String) -> Result<()> {
    Err(Error::Store { path: path.to_owned(), reason: format!("{why}; name another place") })
}
