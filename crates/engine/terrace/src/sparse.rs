//! Files with holes: what reads as zeros and takes no space. Holes of a file become holes of its object, and the other way round.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use rustix::fs::SeekFrom as Look;
use rustix::io::Errno;

/// A shorter hole is read as the zeros that it stands for: an extent for each piece between such holes costs more than the zeros.
pub const MIN_HOLE_BYTES: u64 = 64 << 10;
/// Files are given space in pieces of this length: as long a run of zeros, at a multiple of it, is left out.
const PAGE_BYTES: usize = 4 << 10;
/// How many zeros are written at a time where a sink has no holes.
const MAX_ZEROS: u64 = 64 << 10;

/// A source of bytes that may have holes.
pub trait ReadHoles: Read {
    /// Passes over the hole that begins where the next byte would be read; how long it is. After this, `read` gives the bytes up to
    /// the next hole, and then none.
    fn pass_hole(&mut self) -> io::Result<u64>;
}

/// A sink of bytes that may get holes.
pub trait WriteHoles: Write {
    /// Leaves out `length` bytes, which are to read as zeros.
    fn skip_hole(&mut self, length: u64) -> io::Result<()>;
}

/// A source without holes, or a sink that is given zeros in their place.
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

/// Up to `end` bytes of a file from its beginning, and the holes among them. Where the file system knows of no holes there are none.
pub struct SparseReader {
    file: File,
    at: u64,
    end: u64,
    /// The bytes up to here are no hole, as far as was looked.
    data_end: u64,
}

impl SparseReader {
    /// Of a file, at most up to `end`.
    pub fn new(file: File, end: u64) -> SparseReader {
        SparseReader { file, at: 0, end, data_end: 0 }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The first byte of data from `from` on; where there is none, the file's end.
    fn next_data(&self, from: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.file, Look::Data(from)) {
            Ok(data) => Ok(data.min(self.end)),
            // All that is left is a hole. Where the file has become shorter, that is no hole but its end.
            Err(Errno::NXIO) => Ok(self.file.metadata()?.len().clamp(from, self.end.max(from))),
            // This file system, or this kind of file, has no holes.
            Err(_) => Ok(from),
        }
    }

    /// The first byte from `from` on that is in a hole which is worth it.
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
            // Its end came meanwhile, or it has no holes.
            self.data_end = self.end;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        Ok(hole)
    }
}

/// A new file in which long runs of zeros become holes.
pub struct SparseWriter<'a> {
    file: &'a File,
    at: u64,
}

impl SparseWriter<'_> {
    /// For an empty file.
    pub fn new(file: &File) -> SparseWriter<'_> {
        SparseWriter { file, at: 0 }
    }

    /// Gives the file its length, which what was left out at the end did not.
    pub fn finish(self) -> io::Result<()> {
        self.file.set_len(self.at)
    }
}

impl Write for SparseWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Up to the next multiple of a page, then page by page as long as they are alike.
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
