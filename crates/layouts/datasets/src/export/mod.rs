//! Views and replicas for other tools: HDF5, Zarr, and references into what is stored already.

mod references;
mod zarr;

use std::io::{self, Write};
use std::path::Path;

use terrace::NewFile;
use terrace_views::layout::hdf5::{Group, head};

use crate::loaded::Seen;
use crate::view::View;
use crate::{Error, Result};

/// What can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One HDF5 file: a dataset for each variable of the view, structs as compound types.
    Hdf5,
    /// A Zarr 3 store: an array for each primitive member.
    Zarr,
    /// References (kerchunk) into a replica that is a plain file: an array for each variable, without a copy.
    References,
}

/// What is moved at once.
const STEP: u64 = 4 << 20;

impl View {
    /// Exports the view to a file, or a folder for Zarr, which must not be there yet; references are replaced. It is there whole
    /// or not at all: what an interrupted export has left is removed by the same one, which begins again.
    ///
    /// # Errors
    /// [`Error::Refused`] where the file cannot be made or has no room, or no replica can be referred to.
    pub fn export(&self, format: Format, to: &Path) -> Result<()> {
        match format {
            Format::Hdf5 => self.export_hdf5(to),
            Format::Zarr => self.export_zarr(to),
            Format::References => self.export_references(to),
        }
    }

    fn export_hdf5(&self, to: &Path) -> Result<()> {
        let (loaded, _) = self.dataset().shared.now()?;
        let number = loaded.view(self.name())?;
        let layout = loaded.layout(Seen::Plain(number))?;
        let view = loaded.declared.model.views.get(number).map(|view| view.plain());
        let described = view.and_then(|view| layout.describe(&view, 0)).unwrap_or_default();
        let failed = |error| failed(to, error);
        let length = layout.files.first().copied().unwrap_or(0);
        let root = Group { name: String::new(), variables: described };
        let head = head(&[root], length).map_err(|misfit| Error::Refused(misfit.to_string()))?;
        let mut file = NewFile::create_new(to, head.len() as u64 + length).map_err(failed)?;
        file.write_all(&head).map_err(failed)?;
        let mut at = 0;
        let mut buffer = vec![0; STEP.min(length) as usize];
        while at < length {
            let piece = buffer.get_mut(..STEP.min(length - at) as usize).unwrap_or_default();
            self.read_seen(Seen::Plain, at, piece)?;
            file.write_all(piece).map_err(failed)?;
            at += piece.len() as u64;
        }
        file.finish().map_err(failed)
    }

    /// Reads all of `out`, as the view is seen in some way.
    fn read_seen(&self, seen: impl Fn(usize) -> Seen, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.dataset().shared.read_seen(self.name(), seen, offset, out)? == out.len() {
            true => Ok(()),
            false => {
                Err(Error::Refused(format!("the view {:?} has become shorter while it was exported", self.name())))
            }
        }
    }
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::Refused(format!("making {}: {error}", path.display()))
}
