//! Blobs of a service by their names, for callers that do not use frames.

use std::io::{self, Read};
use std::ops::Range;
use std::time::SystemTime;

use opendal::{Buffer, Error, ErrorKind, Operator, Writer};

use super::NamedBlobs;
use super::service::{
    Client, MARKER_BLOB, RuntimeUse, Service, delete_below, delete_names, fetch, list_names, modified, run, write_new,
};

/// The bytes of each part of an upload. Services require parts of at least 5 MiB.
const PART_BYTES: usize = 8 << 20;
/// The service whose writer gathers parts elsewhere, and moves them at its end.
const WEBHDFS_SCHEME: &str = "webhdfs";

/// Blobs below the root of a service.
pub struct Blobs {
    operator: Client,
}

impl Blobs {
    /// Makes a client of a service, without contacting it yet.
    ///
    /// # Errors
    /// If the service is unknown, or its options are invalid.
    pub fn new(service: &Service) -> io::Result<Blobs> {
        Ok(Blobs { operator: service.connect()? })
    }

    /// Writes a blob, whole or not at all. Returns when the service has acknowledged it.
    pub fn write(&self, name: &str, parts: Vec<Buffer>) -> io::Result<()> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        let bytes: Buffer = parts.into_iter().flatten().collect();
        run(async move { operator.write(&name, bytes).await.map(drop) })
    }

    /// Begins a blob that is written in parts. A service that can rename blobs, such as SFTP, may show one while it is written:
    /// there the parts gather under the name `hidden`.
    pub fn begin(&self, name: &str, hidden: &str) -> io::Result<Upload> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        let runtime = RuntimeUse::begin()?;
        let hidden = operator.info().capability().rename.then(|| hidden.to_owned());
        let (at, is_moved, to) = (operator.clone(), hidden.is_some(), hidden.clone().unwrap_or_else(|| name.clone()));
        let writer = run(async move {
            // Several parts are moved only into a folder that is there, also within the writer for HDFS. In a bucket, a folder would be an
            // empty blob.
            let moves_parts = is_moved || at.info().scheme() == WEBHDFS_SCHEME;
            let makes_folder = moves_parts && at.info().capability().create_dir;
            if let Some((folder, _)) = to.rsplit_once('/').filter(|_| makes_folder) {
                at.create_dir(&format!("{folder}/")).await?;
            }
            at.writer_with(&to).chunk(PART_BYTES).await
        })?;
        let hidden = hidden.map(|name| HiddenBlob { operator: operator.clone(), name: Some(name) });
        Ok(Upload { writer, operator, name, hidden, length: 0, runtime })
    }

    /// Reads a blob.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fetch(&self.operator, name.to_owned())
    }

    /// Returns the length of a blob. None if there is no such blob.
    pub fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        let found =
            run(async move { operator.stat(&name).await.map(|found| (found.is_file(), found.content_length())) });
        match found {
            Ok((is_blob, length)) => Ok(is_blob.then_some(length)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Finds the folder in which a store keeps its own blobs, and which is the root or has it below it.
    ///
    /// # Errors
    /// If the root cannot be looked at. A folder above it that cannot counts as nobody's: rights often end at the root.
    pub fn find_owner(service: &Service) -> io::Result<Option<String>> {
        if Blobs::new(service)?.length(MARKER_BLOB)?.is_some() {
            return Ok(Some(service.root.clone()));
        }
        let root = service.root.trim_matches('/');
        let above = root.match_indices('/').map(|(end, _)| format!("/{}", &root[..end])).chain(["/".to_owned()]);
        for above in above.filter(|_| !root.is_empty()) {
            let folder = Service { root: above, ..service.clone() };
            if Blobs::new(&folder)?.length(MARKER_BLOB).is_ok_and(|found| found.is_some()) {
                return Ok(Some(folder.root));
            }
        }
        Ok(None)
    }

    /// Reads a blob of this length, part by part.
    pub fn reader(&self, name: &str, length: u64) -> BlobReader<'_> {
        BlobReader { blobs: self, name: name.to_owned(), length, at: 0, part: io::Cursor::default() }
    }

    /// Reads a range of a blob; less, if the blob ends before.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        run(async move { operator.read_with(&name).range(range).await.map(|bytes| bytes.to_vec()) })
    }

    /// Lists the names of the blobs below `folder`, in order. `folder` ends with `/`.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        list_names(&self.operator, folder.to_owned())
    }

    /// Deletes blobs. Missing ones are no error.
    pub fn delete(&self, names: Vec<String>) -> io::Result<()> {
        delete_names(&self.operator, names)
    }
}

impl NamedBlobs for Blobs {
    fn write_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<bool> {
        write_new(&self.operator, name.to_owned(), bytes)
    }

    fn replace(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.write(name, vec![bytes.into()])
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fetch(&self.operator, name.to_owned())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        list_names(&self.operator, folder.to_owned())
    }

    fn delete_below(&self, folder: &str) -> io::Result<()> {
        delete_below(&self.operator, folder.to_owned())
    }

    fn modified(&self, name: &str) -> io::Result<Option<SystemTime>> {
        modified(&self.operator, name.to_owned())
    }
}

/// The bytes of a blob.
pub struct BlobReader<'a> {
    blobs: &'a Blobs,
    name: String,
    length: u64,
    /// The end of the part that was read last.
    at: u64,
    part: io::Cursor<Vec<u8>>,
}

impl Read for BlobReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.part.read(out)?;
        if read > 0 || out.is_empty() || self.at >= self.length {
            return Ok(read);
        }
        let end = self.length.min(self.at + PART_BYTES as u64);
        let part = self.blobs.read_range(&self.name, self.at..end)?;
        if part.len() as u64 != end - self.at {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the blob became shorter while it was read"));
        }
        (self.at, self.part) = (end, io::Cursor::new(part));
        self.part.read(out)
    }
}

/// A blob under a hidden name. It is deleted when it is dropped, so that a part of it takes no space.
struct HiddenBlob {
    operator: Operator,
    /// None once it has its final name.
    name: Option<String>,
}

impl HiddenBlob {
    fn rename(mut self, to: &str) -> io::Result<()> {
        if let Some(name) = self.name.clone() {
            let (operator, to) = (self.operator.clone(), to.to_owned());
            run(async move { operator.rename(&name, &to).await })?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for HiddenBlob {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // Ignoring the error loses nothing: the next upload of this name replaces what could not be deleted.
            let _ = delete_names(&self.operator, vec![name]);
        }
    }
}

/// A blob that is being written. It does not exist before [`Upload::end`].
pub struct Upload {
    writer: Writer,
    operator: Operator,
    name: String,
    /// The blob until it is complete, if it then has another name.
    hidden: Option<HiddenBlob>,
    /// Bytes that were written.
    length: u64,
    // The writer's connections need the runtime.
    runtime: RuntimeUse,
}

impl Upload {
    /// Writes the next part.
    pub fn write(self, part: Buffer) -> io::Result<Upload> {
        let Upload { mut writer, operator, name, hidden, length, runtime } = self;
        let length = length + part.len() as u64;
        let writer = run(async move {
            writer.write(part).await?;
            Ok(writer)
        })?;
        Ok(Upload { writer, operator, name, hidden, length, runtime })
    }

    /// Completes the blob. Returns when the service has acknowledged all of it.
    pub fn end(self) -> io::Result<()> {
        let Upload { mut writer, operator, name, hidden, length, runtime: _runtime } = self;
        run(async move { writer.close().await.map(drop) })?;
        if let Some(hidden) = hidden {
            hidden.rename(&name)?;
        }
        // OpenDAL's WebHDFS takes a refused rename of several parts for success.
        if length <= PART_BYTES as u64 {
            return Ok(());
        }
        run(async move {
            let found = operator.stat(&name).await?.content_length();
            if found != length {
                let reason = format!("{length} bytes were written to {name}, and it has {found}");
                return Err(Error::new(ErrorKind::Unexpected, reason));
            }
            Ok(())
        })
    }
}
