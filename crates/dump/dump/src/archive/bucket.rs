//! An archive in a service that keeps blobs.

use std::io;

use terrace::tier::{Blobs, NamedBlobs, Service};

use super::ArchivePlace;

/// The blobs below a path of a bucket.
pub struct ArchiveBucket(Blobs);

impl ArchiveBucket {
    pub fn new(service: &Service) -> io::Result<ArchiveBucket> {
        Ok(ArchiveBucket(Blobs::new(service)?))
    }
}

impl ArchivePlace for ArchiveBucket {
    fn check_exists(&self) -> io::Result<()> {
        // A path in a bucket exists with its first blob, and listing it fails if the bucket does not exist.
        Ok(())
    }

    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        self.0.length(name)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.read(name)
    }

    fn read_at(&self, name: &str, start: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.read_range(name, start..start + out.len() as u64)?;
        if bytes.len() != out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Beside its place, where a listing finds it after a kill.
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        let upload = self.0.begin(name, &format!("{folder}/.{file}.terrace-part"))?;
        upload.write(bytes.to_vec().into())?.end()
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.0.write_new(name, bytes.to_vec())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.0.list(&format!("{folder}/"))
    }

    fn delete(&self, names: Vec<String>) -> io::Result<()> {
        self.0.delete(names)
    }
}
