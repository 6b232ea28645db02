//! Files with holes: ranges that read as zeros and take no space. Holes of a file become holes of its object, and the
//! reverse.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use rustix::fs::SeekFrom as Look;
use rustix::io::Errno;

/// A shorter hole is read as zeros, because separate extents on both of its sides would cost more than the zeros.
pub const MIN_HOLE_BYTES: u64 = 64 << 10;
/// File systems allocate space in blocks of this length, so runs of zeros are left out in units of it.
const PAGE_BYTES: usize = 4 << 10;
/// The number of zeros that are written at a time if a sink has no holes.
const MAX_ZEROS: u64 = 64 << 10;

/// A source of bytes that may have holes.
pub trait ReadHoles: Read {
    /// Skips the hole that begins at the next byte, and returns its length. After this, `read` returns the bytes up to the
    /// next hole, and then none.
    fn pass_hole(&mut self) -> io::Result<u64>;
}

/// A sink of bytes that may get holes.
pub trait WriteHoles: Write {
    /// Leaves out `length` bytes, which must read as zeros.
    fn skip_hole(&mut self, length: u64) -> io::Result<()>;
}

/// A source that has no holes, or a sink to which holes are written as zeros.
pub struct Dense<T>(pub T);

impl<T: Read> Read for Dense<T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl<T: Read> ReadHoles for Dense<T> {
    fn pass_hole(&mut self) -> io::Result<u64> {
        Ok(0)
    }
}

impl<T: Write> Write for Dense<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<T: Write> WriteHoles for Dense<T> {
    fn skip_hole(&mut self, mut length: u64) -> io::Result<()> {
        let zeros = vec![0; MAX_ZEROS.min(length) as usize];
        while length > 0 {
            let part = length.min(MAX_ZEROS);
            self.0.write_all(&zeros[..part as usize])?;
            length -= part;
        }
        Ok(())
    }
}

impl<T: ReadHoles + ?Sized> ReadHoles for Box<T> {
    fn pass_hole(&mut self) -> io::Result<u64> {
        (**self).pass_hole()
    }
}

impl<T: WriteHoles + ?Sized> WriteHoles for &mut T {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        (**self).skip_hole(length)
    }
}

/// The bytes of a file up to `end`, and its holes. There are none if the file system does not support them.
pub struct SparseReader {
    file: File,
    at: u64,
    end: u64,
    /// The bytes up to here are known to be data.
    data_end: u64,
}

impl SparseReader {
    /// Reads a file, at most up to `end`.
    pub fn new(file: File, end: u64) -> SparseReader {
        SparseReader { file, at: 0, end, data_end: 0 }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the offset of the first data from `from` on, or the file's end if there is none.
    fn next_data(&self, from: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.file, Look::Data(from)) {
            Ok(data) => Ok(data.min(self.end)),
            // The rest is one hole. If the file has become shorter, it ends instead.
            Err(Errno::NXIO) => Ok(self.file.metadata()?.len().clamp(from, self.end.max(from))),
            // This file system, or this kind of file, has no holes.
            Err(_) => Ok(from),
        }
    }

    /// Returns the offset of the first byte from `from` on that is in a hole of at least [`MIN_HOLE_BYTES`], or
    /// `end` if there is none.
    fn next_hole(&self, from: u64) -> io::Result<u64> {
        let mut at = from;
        while at < self.end {
            let Ok(hole) = rustix::fs::seek(&self.file, Look::Hole(at)) else { return Ok(self.end) };
            let data = self.next_data(hole)?;
            if data.saturating_sub(hole) >= MIN_HOLE_BYTES || data <= hole {
                return Ok(hole.min(self.end));
            }
            at = data;
        }
        Ok(self.end)
    }
}

impl Read for SparseReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = self.data_end.saturating_sub(self.at).min(out.len() as u64) as usize;
        let read = self.file.read(&mut out[..most])?;
        self.at += read as u64;
        Ok(read)
    }
}

impl ReadHoles for SparseReader {
    fn pass_hole(&mut self) -> io::Result<u64> {
        if self.at < self.data_end || self.at >= self.end {
            return Ok(0);
        }
        let data = self.next_data(self.at)?;
        // The caller compares the length, and so detects a file that ended early.
        let hole = data - self.at;
        self.at = data;
        self.data_end = if data < self.end { self.next_hole(data)? } else { data };
        if self.data_end == data && data < self.end {
            // The file has become shorter, or has no holes.
            self.data_end = self.end;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        Ok(hole)
    }
}

/// A writer to a new file, in which long runs of zeros become holes.
pub struct SparseWriter<'a> {
    file: &'a File,
    at: u64,
}

impl SparseWriter<'_> {
    /// Writes to an empty file.
    pub fn new(file: &File) -> SparseWriter<'_> {
        SparseWriter { file, at: 0 }
    }

    /// Sets the file's length, which a hole at the end does not extend.
    pub fn finish(self) -> io::Result<()> {
        self.file.set_len(self.at)
    }
}

impl Write for SparseWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Up to the next page boundary, then page by page while pages are all zeros or all not.
        let to_page = PAGE_BYTES - (self.at % PAGE_BYTES as u64) as usize;
        let mut length = to_page.min(bytes.len());
        let zero = is_zero(&bytes[..length]);
        for page in bytes[length..].chunks(PAGE_BYTES) {
            if is_zero(page) != zero {
                break;
            }
            length += page.len();
        }
        if zero {
            self.skip_hole(length as u64)?;
            return Ok(length);
        }
        let written = self.file.write(&bytes[..length])?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl WriteHoles for SparseWriter<'_> {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        self.at = self.at.checked_add(length).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.seek(SeekFrom::Start(self.at)).map(drop)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    const ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    bytes.chunks(PAGE_BYTES).all(|part| *part == ZERO_PAGE[..part.len()])
}
