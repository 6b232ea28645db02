//! Results in a service that keeps blobs.

use std::fs;
use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use terrace::sparse::Dense;
use terrace::tier::{Blobs, Service, Upload};
use terrace::{Kind, Object, OwnPlaces, Store};

use super::destination::Destination;
use super::{Clock, Draft, Look, ResultPlace, Wanted};
use crate::copy::same_bytes;
use crate::output::name;

/// The folder of blobs that are being written, on services that show them meanwhile.
const PART_FOLDER: &str = ".terrace-part";
/// The service whose blobs are files here.
const FILES_SERVICE: &str = "fs";

pub struct ResultBucket {
    blobs: Blobs,
    service: String,
    /// The directory of the blobs, if they are files here. A write makes a missing one again.
    destination: Option<Destination>,
}

impl ResultBucket {
    pub fn new(store: &Store, service: &Service) -> Result<ResultBucket> {
        let blobs = Blobs::new(service).with_context(|| format!("opening {service}"))?;
        OwnPlaces::of(store).check_service(service)?;
        let destination = match service.name == FILES_SERVICE {
            true => Some(open_destination(&service.root).with_context(|| format!("opening {service}"))?),
            false => None,
        };
        Ok(ResultBucket { blobs, service: service.to_string(), destination })
    }
}

fn open_destination(root: &str) -> io::Result<Destination> {
    fs::create_dir_all(root)?;
    Destination::open(root.into())
}

fn text(key: &[u8]) -> Result<&str> {
    std::str::from_utf8(key).context("blobs have names in UTF-8")
}

impl ResultPlace for ResultBucket {
    fn check(&self) -> Result<()> {
        self.destination.as_ref().map_or(Ok(()), Destination::check)
    }

    fn name_of(&self, key: &[u8]) -> String {
        format!("{} in {}", name(key), self.service)
    }

    fn look(&self, key: &[u8], object: &Object) -> Look {
        let length = text(key).and_then(|name| Ok(self.blobs.length(name)?));
        if length.is_ok_and(|length| length == Some(object.length)) { Look::There(None) } else { Look::Nothing }
    }

    fn lists(&self, _: &[u8]) -> bool {
        // Keys of blobs differ in case.
        true
    }

    fn looks_fast(&self) -> bool {
        // It takes a request for each object.
        false
    }

    fn is_there(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool> {
        let name = text(key)?;
        let compare = || match self.blobs.length(name)? {
            Some(length) if length == object.length => {
                same_bytes(store, key, clock.limit(Dense(self.blobs.reader(name, length))))
            }
            _ => Ok(false),
        };
        compare().with_context(|| format!("reading {name} in {}", self.service))
    }

    fn write(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<Draft> {
        let name = text(key)?;
        if object.attributes.kind != Kind::File {
            bail!("a blob is a regular file, and this is a directory or a symbolic link; copy it to a directory");
        }
        let write = || -> Result<()> {
            self.check()?;
            let upload = self.blobs.begin(name, &format!("{PART_FOLDER}/{name}"))?;
            let mut to = clock.limit(Dense(UploadWriter { place: self, upload: Some(upload) }));
            store.get_sparse(key, 0, None, &mut to)?;
            let upload = to.inner.0.upload.take();
            self.check()?;
            upload.map_or(Ok(()), Upload::end)?;
            Ok(())
        };
        write().with_context(|| format!("writing {name} in {}", self.service))?;
        Ok(Draft::None)
    }

    fn sync_drafts(&self, _: &mut [Result<Draft>]) {
        // The service has acknowledged them.
    }

    fn publish(&self, _: &Store, _: &[u8], _: &Object, _: Draft) -> Result<()> {
        Ok(())
    }

    fn sync(&self, objects: &[&Wanted]) -> Vec<Result<()>> {
        objects.iter().map(|_| Ok(())).collect()
    }
}

/// Writes the parts of an upload.
struct UploadWriter<'a> {
    place: &'a ResultBucket,
    /// None after a failed write, which gives the upload up.
    upload: Option<Upload>,
}

impl Write for UploadWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let upload = self.upload.take().ok_or_else(|| io::Error::other("an earlier part was not written"))?;
        self.place.check().map_err(io::Error::other)?;
        self.upload = Some(upload.write(bytes.to_vec().into())?);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
