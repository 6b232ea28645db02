//! [`Open`]: an open file or view.

use terrace::Kind;
use terrace::files::{File, Setting, Stat};
use terrace_datasets::Datasets;

use crate::error::refused;
use crate::nodes::number_of;
use crate::views::OpenView;
use crate::{Error, Result, Tree, views};

/// An open file or view. Dropping it closes the file and only logs an error; [`Open::flush`] returns it.
pub struct Open {
    number: u64,
    bytes: Bytes,
    /// The dataset of the view, or in whose folder the file was when it was opened.
    dataset: Option<String>,
}

enum Bytes {
    File(File),
    View(OpenView),
}

impl Tree {
    /// Opens a file or a view.
    pub fn open(&self, number: u64) -> Result<Open> {
        if views::is_view(number) {
            let view = self.views.open(number)?;
            return Ok(Open { number, dataset: Some(view.dataset().to_owned()), bytes: Bytes::View(view) });
        }
        let nodes = self.nodes.read();
        let path = nodes.path_of(number)?;
        let dataset = Datasets::name_in(&path).map(str::to_owned);
        Ok(Open { dataset, ..Open::file(number, self.files.open(&path)?) })
    }

    /// Opens a file or a view to write to it.
    pub fn open_to_write(&self, number: u64) -> Result<Open> {
        let open = self.open(number)?;
        if let Some(path) = self.path(number)? {
            self.files.check_writable(&path)?;
        }
        Ok(open)
    }

    /// Makes the written bytes durable.
    pub fn sync(&self, open: &Open) -> Result<()> {
        open.flush()?;
        match &open.bytes {
            Bytes::File(file) => file.sync()?,
            Bytes::View(_) => self.files.sync_names()?,
        }
        Ok(())
    }
}

impl Tree {
    /// Makes a file durable, including bytes written through other handles, or the names in a directory.
    pub fn sync_number(&self, number: u64) -> Result<()> {
        let stat = self.node(number, None)?.stat;
        match stat.kind == Kind::File && stat.special.is_none() {
            true => self.sync(&self.open(number)?),
            false => Ok(self.files.sync_names()?),
        }
    }
}

impl Open {
    pub(crate) fn file(number: u64, file: File) -> Open {
        Open { number, bytes: Bytes::File(file), dataset: None }
    }

    /// Its number in the tree.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The file, unless it is a view.
    pub fn as_file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(file) => Some(file),
            Bytes::View(_) => None,
        }
    }

    /// The dataset of the view, or in whose folder the file was when it was opened. Writes to views of a dataset change such files.
    pub fn dataset(&self) -> Option<&str> {
        self.dataset.as_deref()
    }

    /// Returns the generation of the bytes that readers of this number see. None if no generation stands for them: those of views, of a file
    /// with buffered bytes, and of another file that has got the path of this number.
    pub fn generation(&self) -> Result<Option<u64>> {
        match &self.bytes {
            Bytes::File(file) if number_of(file.id()) == self.number => Ok(file.generation()?),
            _ => Ok(None),
        }
    }

    /// Reads bytes and returns their number, which is smaller only at the end.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        match &self.bytes {
            Bytes::File(file) => Ok(file.read_at(offset, out)?),
            Bytes::View(view) => view.read_at(offset, out),
        }
    }

    /// Reads like [`Open::read_at`] and lends the bytes to `answer`: from `out`, or from the prefetch buffer.
    pub fn read_to<T>(&self, offset: u64, out: &mut [u8], answer: impl FnOnce(Result<&[u8]>) -> T) -> T {
        match &self.bytes {
            Bytes::File(file) => file.read_to(offset, out, |read| answer(read.map_err(Error::from))),
            Bytes::View(view) => answer(view.read_at(offset, out).map(|length| &out[..length])),
        }
    }

    /// Writes bytes and returns their number, which is smaller only at the end of a view, whose length is fixed.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        match &self.bytes {
            Bytes::File(file) => {
                file.write_at(offset, bytes)?;
                Ok(bytes.len())
            }
            Bytes::View(view) => view.write_at(offset, bytes),
        }
    }

    /// Writes like [`Open::write_at`], and calls `accepted` as soon as all users of the tree are sure to see the bytes
    /// ([`File::write_behind`](terrace::files::File::write_behind)).
    pub fn write_behind(&self, offset: u64, bytes: &[u8], accepted: impl FnOnce(Result<usize>)) {
        match &self.bytes {
            Bytes::File(file) => file.write_behind(offset, bytes, |written| {
                accepted(written.map(|()| bytes.len()).map_err(Error::from));
            }),
            Bytes::View(view) => accepted(view.write_at(offset, bytes)),
        }
    }

    /// Appends at the end that the file has when the bytes reach the store; otherwise works like [`Open::write_behind`]. The length of a
    /// view is fixed, so its bytes go to `offset`.
    pub fn append_behind(&self, offset: u64, bytes: &[u8], accepted: impl FnOnce(Result<usize>)) {
        match &self.bytes {
            Bytes::File(file) => file.append_behind(bytes, |appended| {
                accepted(appended.map(|()| bytes.len()).map_err(Error::from));
            }),
            Bytes::View(view) => accepted(view.write_at(offset, bytes)),
        }
    }

    /// Appends like [`Open::append_behind`], and returns once the bytes are written.
    pub fn append(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        match &self.bytes {
            Bytes::File(file) => {
                file.append(bytes)?;
                Ok(bytes.len())
            }
            Bytes::View(view) => view.write_at(offset, bytes),
        }
    }

    /// Writes buffered bytes, as closing does; then updates the replicas of a dataset that follow on close.
    pub fn flush(&self) -> Result<()> {
        match &self.bytes {
            Bytes::File(file) => Ok(file.flush()?),
            Bytes::View(view) => view.flush(),
        }
    }

    /// Returns the file's attributes.
    pub(crate) fn stat(&self) -> Option<Result<Stat>> {
        self.as_file().map(|file| Ok(file.stat()?))
    }

    /// Changes attributes of a file.
    pub(crate) fn set(&self, setting: &Setting) -> Result<Stat> {
        match self.as_file() {
            Some(file) => Ok(file.set(setting)?),
            None => refused(libc::EPERM),
        }
    }
}
