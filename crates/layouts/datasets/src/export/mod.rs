//! Exports views and replicas for other tools: to HDF5, to Zarr, or as references into stored files.

mod json;
mod references;
mod zarr;

use std::io::{self, Write};
use std::path::Path;

use terrace::NewFile;
use terrace_views::layout::hdf5::{Content, Group, head};

use crate::loaded::Projection;
use crate::view::View;
use crate::{Error, Result};

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One HDF5 file: a dataset for each variable of the view, structs as compound types.
    Hdf5,
    /// A Zarr 3 store: an array for each primitive member.
    Zarr,
    /// References (kerchunk) into a replica that is a plain file: an array for each variable, without a copy.
    References,
}

/// An export moves at most this many bytes at a time.
const EXPORT_STEP_BYTES: u64 = 4 << 20;

impl View {
    /// Exports the view to a new file, or for Zarr to a new folder; references replace an existing file. The export
    /// appears completely or not at all. A repeated export removes the remains of an interrupted one and starts over.
    ///
    /// # Errors
    /// [`Error::Refused`] if the file cannot be created, there is not enough room, or no replica can be referenced.
    pub fn export(&self, format: Format, to: &Path) -> Result<()> {
        match format {
            Format::Hdf5 => self.export_hdf5(to),
            Format::Zarr => self.export_zarr(to),
            Format::References => self.export_references(to),
        }
    }

    fn export_hdf5(&self, to: &Path) -> Result<()> {
        let (loaded, _) = self.dataset().shared.load()?;
        let number = loaded.view(self.name())?;
        let layout = loaded.layout(Projection::Plain(number))?;
        let view = loaded.declared.model.views.get(number).map(|view| view.plain());
        let dataset = &loaded.declared.model.dataset;
        let described = view.and_then(|view| layout.describe(&view, 0, dataset)).unwrap_or_default();
        let failed = |error| export_error(to, error);
        let length = layout.files.first().copied().unwrap_or(0);
        let root = Group { name: String::new(), variables: described };
        let content = Content { attributes: dataset.attributes.clone(), groups: vec![root], has_scales: true };
        let head = head(&content, length).map_err(|misfit| Error::Refused(misfit.to_string()))?;
        let mut file = NewFile::create_new(to, head.len() as u64 + length).map_err(failed)?;
        file.write_all(&head).map_err(failed)?;
        let mut at = 0;
        let mut buffer = vec![0; EXPORT_STEP_BYTES.min(length) as usize];
        while at < length {
            let piece = buffer.get_mut(..EXPORT_STEP_BYTES.min(length - at) as usize).unwrap_or_default();
            self.read_projection(Projection::Plain, at, piece)?;
            file.write_all(piece).map_err(failed)?;
            at += piece.len() as u64;
        }
        file.finish().map_err(failed)
    }

    /// Fills all of `out` from a projection of the view.
    fn read_projection(&self, projection: impl Fn(usize) -> Projection, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.dataset().shared.read_projection(self.name(), projection, offset, out)? == out.len() {
            true => Ok(()),
            false => {
                Err(Error::Refused(format!("the view {:?} has become shorter while it was exported", self.name())))
            }
        }
    }
}

/// Returns whether all of this number of dimensions have a name.
fn are_names(dimensions: &[String], count: usize) -> bool {
    dimensions.len() == count && dimensions.iter().all(|name| !name.is_empty())
}

fn export_error(path: &Path, error: io::Error) -> Error {
    Error::Refused(format!("making {}: {error}", path.display()))
}
