//! A place that outlives the nodes, such as a parallel file system or a bucket, to which the versions of dumps flow.
//!
//! ```text
//! dumps/NAME/complete/VERSION        the version is whole there; names its other files
//! dumps/NAME/ranks/VERSION/RANK-HASH a rank's manifest, and the places of its chunks in packs; the hash of these bytes
//! dumps/NAME/packs/HASH              chunks in a row; the name is the hash of the bytes
//! dumps/NAME/claims/NUMBER           a job changes the dump there
//!
//! Nothing but a damaged file is ever replaced by other bytes: a job that was stopped for long, and goes on, harms no other one.
//! ```

#[cfg(feature = "object")]
mod bucket;
mod claim;
mod folder;
pub(crate) mod gc;
mod records;

use std::fmt;
use std::io;
use std::sync::Arc;

use terrace::tier::ServiceAddress;
use terrace::{OwnPlaces, Store, fail};

use crate::chunk::Hash;
use crate::manifest;
use crate::names::{self, Part};
use crate::terms::Terms;
use crate::transport::{World, agree};
use crate::{Error, Result};
pub(crate) use claim::Claim;
use folder::ArchiveFolder;
pub(crate) use records::{ArchivedRank, ArchivedVersion};

/// A directory or a bucket that keeps versions of dumps.
#[derive(Clone)]
pub struct Archive {
    place: Arc<dyn ArchivePlace>,
    address: String,
}

/// Files by their names.
trait ArchivePlace: Send + Sync {
    /// Checks that the place exists, as far as it can be told from one to which nothing has flowed.
    fn check_exists(&self) -> io::Result<()>;

    /// Returns the length of a file. None if there is no such file.
    fn length(&self, name: &str) -> io::Result<Option<u64>>;

    /// Reads a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Fills `out` with the file's bytes from `start` on.
    fn read_at(&self, name: &str, start: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes a file, whole or not at all, in place of one of this name. It is durable on return.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes a file as [`write`](ArchivePlace::write) does, unless there is one of this name. Returns whether there was none.
    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool>;

    /// Lists the names of all files below a folder, which may be missing.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Deletes files. Missing ones are no error.
    fn delete(&self, names: Vec<String>) -> io::Result<()>;
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl Archive {
    /// Opens an archive: a directory, or `SERVICE://BUCKET/PATH` with options of the form `name=value`. It may be empty, or missing until
    /// a version flows there.
    ///
    /// # Errors
    /// [`Error::Refused`] if the address is invalid, or names a place in which a store keeps its own data.
    pub fn open(store: &Store, address: &str, options: &[String]) -> Result<Archive> {
        let refuse = |reason: &dyn fmt::Display| Error::Refused(format!("{address}: {reason}"));
        let place = match ServiceAddress::parse(address.as_ref()) {
            Some(service) => open_bucket(store, service, options).map_err(|reason| refuse(&reason))?,
            None if address.is_empty() => {
                return Err(Error::Refused("name a directory or SERVICE://BUCKET/PATH".into()));
            }
            None if !options.is_empty() => return Err(refuse(&"options are for services, as in s3://BUCKET/PATH")),
            None => {
                OwnPlaces::of(store).check(address.as_ref())?;
                Arc::new(ArchiveFolder::new(address.as_ref()).map_err(|reason| refuse(&reason))?)
            }
        };
        Ok(Archive { place, address: address.to_owned() })
    }

    /// Checks that versions can be there, for a user who names the place to restore from it. A bucket is looked at when it is listed.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such directory.
    pub fn check_exists(&self) -> Result<()> {
        self.place.check_exists().map_err(|reason| {
            Error::Refused(format!(
                "{self}: {reason}; name the place to which versions have flowed, and see that its file system is mounted; if none has flowed \
                 yet, make the directory once by `mkdir`"
            ))
        })
    }

    fn outcome<T>(&self, doing: &str, name: &str, done: io::Result<T>) -> Result<T> {
        done.map_err(|cause| Error::Archive { what: format!("{doing} {name} in {self}"), cause })
    }

    /// Puts a file there unless it is there with the same bytes, and compares it. Returns whether it was written.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        if self.holds(name, bytes)? {
            return Ok(false);
        }
        self.outcome("writing", name, self.place.write(name, bytes))?;
        fail::point("flow:written");
        self.compare(name, bytes).map(|()| true)
    }

    /// Compares a file with what was written.
    fn compare(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self.holds(name, bytes)? {
            true => Ok(()),
            false => {
                let reason = "it differs from what was written; if nobody has changed it, look after that file system";
                Err(Error::damaged(format!("{name} in {self}"), reason))
            }
        }
    }

    /// Makes a version exist. The record of another job for this version stays, unless it is damaged.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is one.
    pub(crate) fn complete(&self, archived: &ArchivedVersion) -> Result<()> {
        let ArchivedVersion { name, version, complete, .. } = archived;
        let (file, record) = (names::version_prefix(name, Part::Complete, *version), archived.encode()?);
        let refused =
            || Error::Refused(format!("another job has let version {version} of dump {name:?} flow to {self}"));
        if self.length(&file)?.is_some() {
            return match self.version(name, *version) {
                Ok(there) if there.complete.attempt != complete.attempt => Err(refused()),
                _ => self.put(&file, &record).map(drop),
            };
        }
        match self.outcome("writing", &file, self.place.write_new(&file, &record))? {
            true => self.compare(&file, &record),
            false => Err(refused()),
        }
    }

    fn holds(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let holds = match self.place.length(name) {
            Ok(Some(length)) if length == bytes.len() as u64 => self.place.read(name).map(|read| read == bytes),
            found => found.map(|_| false),
        };
        self.outcome("reading", name, holds)
    }

    /// Returns the length of a file. None if there is no such file.
    pub(crate) fn length(&self, name: &str) -> Result<Option<u64>> {
        self.outcome("looking at", name, self.place.length(name))
    }

    /// Reads a file. None if there is no such file.
    fn read_if_there(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.place.read(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => self.outcome("reading", name, read).map(Some),
        }
    }

    /// Returns whether a pack has the bytes that its name says.
    pub(crate) fn is_pack_whole(&self, name: &str) -> Result<bool> {
        let bytes = self.outcome("reading", name, self.place.read(name))?;
        Ok(name.ends_with(&Hash::of(&bytes).to_string()))
    }

    /// Fills `out` from a pack.
    pub(crate) fn read_from_pack(&self, name: &str, offset: u32, out: &mut [u8]) -> Result<()> {
        self.outcome("reading", name, self.place.read_at(name, u64::from(offset), out))
    }

    fn list(&self, name: &str, part: Part) -> Result<Vec<String>> {
        let folder = names::part_prefix(name, part);
        self.outcome("listing", &folder, self.place.list(&folder))
    }

    fn delete(&self, name: &str, part: Part, files: Vec<String>) -> Result<()> {
        self.outcome("deleting files of", &names::part_prefix(name, part), self.place.delete(files))
    }

    /// Lists the versions of a dump that are whole there, by their records, oldest first.
    pub(crate) fn versions(&self, name: &str) -> Result<Vec<u32>> {
        names::check_name(name)?;
        let listed = self.list(name, Part::Complete)?;
        let mut versions: Vec<u32> = listed.iter().filter_map(|file| names::parse_number(file)).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// Reads the record of a version.
    pub(crate) fn version(&self, name: &str, version: u32) -> Result<ArchivedVersion> {
        let file = names::version_prefix(name, Part::Complete, version);
        let bytes = self.outcome("reading", &file, self.place.read(&file))?;
        ArchivedVersion::decode(&format!("{file} in {self}"), &bytes, name, version)
    }

    /// Reads what a version has of a rank.
    pub(crate) fn rank(&self, name: &str, version: u32, archived: &ArchivedVersion, rank: u32) -> Result<ArchivedRank> {
        let Some(hash) = archived.ranks.get(rank as usize) else {
            return Err(Error::damaged(format!("version {version} of dump {name:?} in {self}"), "it has fewer ranks"));
        };
        let file = names::record_name(name, version, rank, hash);
        let bytes = self.outcome("reading", &file, self.place.read(&file))?;
        ArchivedRank::decode(&format!("{file} in {self}"), &bytes, hash)
    }
}

/// Returns the newest version of a dump in an archive, which the next version must follow. Collective.
///
/// # Errors
/// [`Error::Differ`] if the ranks name different archives.
pub fn newest_version(world: &dyn World, archive: Option<&Archive>, name: &str) -> Result<Option<u32>> {
    let address = archive.map_or_else(|| "none".to_owned(), Archive::to_string);
    Terms::of("dump").with("dump", name).with("flows to", address).agree(world)?;
    match archive {
        Some(archive) => Ok(share(world, || archive.versions(name))?.pop()),
        None => Ok(None),
    }
}

/// Returns on all ranks what the first one finds. Collective.
pub(crate) fn share<T: serde::Serialize + serde::de::DeserializeOwned>(
    world: &dyn World,
    find: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let found = if world.rank() == 0 { find().and_then(|found| manifest::encode(&found)) } else { Ok(Vec::new()) };
    let found = agree(world, found)?;
    manifest::decode("what the first rank has found", &world.all_gather(&found)?.concat())
}

#[cfg(feature = "object")]
fn open_bucket(store: &Store, address: ServiceAddress, options: &[String]) -> io::Result<Arc<dyn ArchivePlace>> {
    let service = address.service(options)?;
    OwnPlaces::of(store).check_service(&service).map_err(io::Error::other)?;
    Ok(Arc::new(bucket::ArchiveBucket::new(&service)?))
}

#[cfg(not(feature = "object"))]
fn open_bucket(_: &Store, address: ServiceAddress, _: &[String]) -> io::Result<Arc<dyn ArchivePlace>> {
    Err(address.not_compiled_in())
}
