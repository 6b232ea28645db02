//! Datasets' views as files, under `.views/DATASET/VIEW`.
//!
//! A view has a fixed length: like a device it cannot be truncated or extended, and bytes beyond its end are not written.

use std::collections::HashMap;

use rustix_futex_sync::RwLock;
use terrace::files::Stat;
use terrace::{Files, Kind};
use terrace_datasets::{Dataset, Datasets, View};

use crate::error::{STALE_FILE, refused};
use crate::nodes::ROOT_NODE;
use crate::{Error, Listed, Node, Result};

/// The name of the views' directory in the root.
pub const VIEWS_NAME: &str = ".views";
/// The number of that directory; all entries below it have greater numbers.
pub const VIEWS_NUMBER: u64 = 1 << 62;

/// Datasets' views as files.
pub struct Views {
    files: Files,
    datasets: Datasets,
    /// A leaf, held for a lookup or an insertion.
    known: RwLock<NumberedPlaces>,
}

/// An entry with a number.
#[derive(Default)]
struct NumberedPlaces {
    places: Vec<Place>,
    numbers: HashMap<(String, Option<String>), u64>,
}

/// A dataset's directory, or one of its views.
#[derive(Clone)]
struct Place {
    dataset: Dataset,
    view: Option<String>,
}

/// Whether a number belongs to the views.
pub fn is_view(number: u64) -> bool {
    number >> 62 == 1
}

/// Whether a name in a directory is the directory of all views.
pub fn is_folder(parent: u64, name: &[u8]) -> bool {
    parent == ROOT_NODE && name == VIEWS_NAME.as_bytes()
}

impl Views {
    pub fn new(files: &Files) -> Views {
        Views { files: files.clone(), datasets: Datasets::new(files.store()), known: RwLock::default() }
    }

    /// Whether there are views.
    pub fn any(&self) -> bool {
        self.datasets.list().is_ok_and(|names| !names.is_empty())
    }

    /// Looks up a name in a directory.
    pub fn find(&self, parent: u64, name: &[u8]) -> Result<Node> {
        if parent == ROOT_NODE {
            return self.node(VIEWS_NUMBER);
        }
        let name = std::str::from_utf8(name).map_err(|_| Error::Refused(libc::ENOENT))?;
        let place = match parent {
            VIEWS_NUMBER => Place { dataset: self.datasets.open(name)?, view: None },
            parent => {
                let Place { dataset, view: None } = self.place(parent)? else { return refused(libc::ENOTDIR) };
                dataset.view(name)?;
                Place { dataset, view: Some(name.to_owned()) }
            }
        };
        self.node(self.number(place))
    }

    fn number(&self, place: Place) -> u64 {
        let mut known = self.known.write();
        let key = (place.dataset.name().to_owned(), place.view.clone());
        if let Some(number) = known.numbers.get(&key) {
            return *number;
        }
        known.places.push(place);
        let number = VIEWS_NUMBER + known.places.len() as u64;
        known.numbers.insert(key, number);
        number
    }

    fn place(&self, number: u64) -> Result<Place> {
        let at = number.checked_sub(VIEWS_NUMBER + 1).ok_or(Error::Refused(libc::EISDIR))?;
        self.known.read().places.get(at as usize).cloned().ok_or(STALE_FILE)
    }

    /// Returns the directory that holds a number.
    pub fn above(&self, number: u64) -> Result<u64> {
        if number == VIEWS_NUMBER {
            return Ok(ROOT_NODE);
        }
        let place = self.place(number)?;
        Ok(if place.view.is_some() { self.number(Place { view: None, ..place }) } else { VIEWS_NUMBER })
    }

    /// Returns the name of a number.
    pub fn name(&self, number: u64) -> Result<Vec<u8>> {
        if number == VIEWS_NUMBER {
            return Ok(VIEWS_NAME.into());
        }
        let Place { dataset, view } = self.place(number)?;
        Ok(view.unwrap_or_else(|| dataset.name().to_owned()).into_bytes())
    }

    /// Returns the attributes of a number.
    pub fn node(&self, number: u64) -> Result<Node> {
        let root = self.files.stat(b"")?;
        let (kind, mode, length, modified) = match number {
            VIEWS_NUMBER => (Kind::Directory, 0o555, 0, root.modified),
            number => {
                let Place { dataset, view } = self.place(number)?;
                let modified = dataset.modified()?;
                match view {
                    None => (Kind::Directory, 0o555, 0, modified),
                    Some(name) => {
                        let view = dataset.view(&name)?;
                        let mode = if view.is_read_only()? { 0o444 } else { 0o644 };
                        (Kind::File, mode, view.length()?, modified)
                    }
                }
            }
        };
        let stat = Stat { kind, mode, length, modified, accessed: modified, changed: modified, ..root };
        Ok(Node { number, stat })
    }

    /// Returns the entries of a directory.
    pub fn list(&self, number: u64) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        if number == VIEWS_NUMBER {
            for name in self.datasets.list()? {
                let dataset = match self.datasets.open(&name) {
                    Ok(dataset) => dataset,
                    Err(error) => {
                        tracing::warn!(name, %error, "a dataset has no views");
                        continue;
                    }
                };
                all.push(Listed::view(self.number(Place { dataset, view: None }), Kind::Directory, name));
            }
            return Ok(all);
        }
        let Place { dataset, view: None } = self.place(number)? else { return refused(libc::ENOTDIR) };
        for name in dataset.views()? {
            let place = Place { dataset: dataset.clone(), view: Some(name.clone()) };
            all.push(Listed::view(self.number(place), Kind::File, name));
        }
        Ok(all)
    }

    /// Opens a view.
    pub fn open(&self, number: u64) -> Result<OpenView> {
        let Place { dataset, view: Some(name) } = self.place(number)? else { return refused(libc::EISDIR) };
        Ok(OpenView(dataset.view(&name)?))
    }
}

/// An open view.
pub struct OpenView(View);

impl OpenView {
    pub fn dataset(&self) -> &str {
        self.0.dataset().name()
    }

    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        Ok(self.0.read_at(offset, out)?)
    }

    /// Writes the bytes before the end and returns their number.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let room = self.0.length()?.saturating_sub(offset);
        let fits = bytes.get(..room.min(bytes.len() as u64) as usize).unwrap_or_default();
        if fits.is_empty() && !bytes.is_empty() {
            return refused(libc::ENOSPC);
        }
        self.0.write_at(offset, fits)?;
        Ok(fits.len())
    }

    /// Updates the replicas that follow when a file is closed.
    pub fn flush(&self) -> Result<()> {
        Ok(self.0.close()?)
    }
}
