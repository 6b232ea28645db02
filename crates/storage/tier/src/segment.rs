//! A segment file. One writer at a time, which holds the file's lock, appends frames to it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FallocateFlags;
use terrace_system::Locked;

use super::{FRAME_ALIGNMENT, Place};

/// Frames of at least this length start on a new page.
const ALIGNED_FROM: u64 = 256 << 10;
const PAGE_BYTES: u64 = 4096;

/// A segment open for appending.
pub struct Segment {
    /// Its number, unique in the store.
    pub id: u64,
    /// Where the next frame may start.
    pub end: u64,
    file: Locked,
}

impl Segment {
    /// Makes a new, empty segment, and locks it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another writer has claimed the file before this one locked it.
    pub fn create(path: &Path, id: u64) -> io::Result<Segment> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let file = hold_new(file)?.ok_or(io::ErrorKind::WouldBlock)?;
        Ok(Segment { id, end: 0, file })
    }

    /// Opens an existing segment if no other writer holds it. If a dead writer may have left an incomplete frame at its end, the caller
    /// has to raise [`Segment::end`].
    pub fn claim(path: &Path, id: u64) -> io::Result<Option<Segment>> {
        let Some(file) = hold(path)? else { return Ok(None) };
        let metadata = file.metadata()?;
        // Another process may have discarded the file between opening and locking: a frame in it would be lost.
        if metadata.nlink() == 0 {
            return Ok(None);
        }
        let end = metadata.len().next_multiple_of(PAGE_BYTES);
        Ok(Some(Segment { id, end, file }))
    }

    /// The place of the next frame, of `length` bytes.
    pub fn place(&self, length: u32) -> Place {
        Place { segment: self.id, offset: offset_behind(self.end, length), length }
    }

    /// The bytes, in whole pages, by which a frame at the place from [`Segment::place`] increases the file's allocation.
    pub fn grows(&self, place: Place) -> u64 {
        place.end().next_multiple_of(PAGE_BYTES) - self.end.next_multiple_of(PAGE_BYTES)
    }

    /// Writes a frame at the place from [`Segment::place`]. After an error the place is not used again.
    pub fn write(&mut self, place: Place, header: &[u8], payload: &[u8]) -> io::Result<()> {
        self.end = place.end();
        terrace_system::fail::point_within("segment:torn", || {
            let torn = [header, &payload[..payload.len() / 2]].concat();
            // Ignored: the process dies here in any case.
            let _ = self.file.write_all_at(&torn, place.offset);
        });
        let parts = [io::IoSlice::new(header), io::IoSlice::new(payload)];
        let written = rustix::io::pwritev(&*self.file, &parts, place.offset)?;
        if written < header.len() {
            self.file.write_all_at(&header[written..], place.offset + written as u64)?;
        }
        let done = written.saturating_sub(header.len());
        if done < payload.len() {
            self.file.write_all_at(&payload[done..], place.offset + (header.len() + done) as u64)?;
        }
        Ok(())
    }
}

impl Segment {
    /// Truncates the segment to `end`, to remove a frame that could not be written whole.
    pub fn cut(&mut self, end: u64) -> io::Result<()> {
        if self.file.metadata()?.len() > end {
            self.file.set_len(end)?;
        }
        self.end = end;
        Ok(())
    }
}

/// The offset of a frame of `length` bytes that follows a frame that ends at `end`.
pub fn offset_behind(end: u64, length: u32) -> u64 {
    end.next_multiple_of(if u64::from(length) >= ALIGNED_FROM { PAGE_BYTES } else { FRAME_ALIGNMENT })
}

/// Locks a segment until the result is dropped. `None` if a writer holds it.
pub fn hold(path: &Path) -> io::Result<Option<Locked>> {
    Locked::at_once(OpenOptions::new().read(true).write(true).open(path)?)
}

/// Locks a file that was just created. `None` if it no longer belongs to this writer: before it is locked, others can claim,
/// fill and release it, or remove it.
pub fn hold_new(file: File) -> io::Result<Option<Locked>> {
    let Some(file) = Locked::at_once(file)? else { return Ok(None) };
    let metadata = file.metadata()?;
    Ok((metadata.len() == 0 && metadata.nlink() > 0).then_some(file))
}

/// Frees a dead range, and the pages at its ends if they have become zeros. A page of zeros has no frame header, and at most the
/// zeros of a payload, which a hole preserves. The last, incomplete page stays, because a writer may be appending to it.
pub fn punch(file: &File, offset: u64, length: u64) -> io::Result<()> {
    make_hole(file, offset, length)?;
    let end = file.metadata()?.len();
    let ends = [offset, offset + length].map(|at| at / PAGE_BYTES * PAGE_BYTES);
    for page in &ends[usize::from(ends[0] == ends[1])..] {
        let mut bytes = [0; PAGE_BYTES as usize];
        if page + PAGE_BYTES <= end
            && file.read_exact_at(&mut bytes, *page).is_ok()
            && bytes.iter().all(|byte| *byte == 0)
        {
            make_hole(file, *page, PAGE_BYTES)?;
        }
    }
    Ok(())
}

fn make_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a new file, in the state before its maker locks it.
    fn unlocked(path: &Path) -> File {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file")
    }

    #[test]
    fn a_new_segment_that_another_has_filled_and_left_is_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("1");
        let file = unlocked(&path);
        let mut other = Segment::claim(&path, 1).expect("a segment").expect("nobody holds it");
        let place = other.place(8);
        other.write(place, b"head", b"body").expect("written");
        drop(other);
        assert!(hold_new(file).expect("locked").is_none());
        assert_eq!(std::fs::read(&path).expect("the file"), b"headbody");
    }

    #[test]
    fn a_new_segment_that_is_held_or_removed_is_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let held = unlocked(&dir.path().join("1"));
        let other = hold(&dir.path().join("1")).expect("a file").expect("nobody holds it");
        assert!(hold_new(held).expect("looked").is_none());
        drop(other);
        let removed = unlocked(&dir.path().join("2"));
        std::fs::remove_file(dir.path().join("2")).expect("removed");
        assert!(hold_new(removed).expect("locked").is_none());
    }
}
