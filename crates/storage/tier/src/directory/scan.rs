//! Finding the frames of segments by their headers.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use terrace_format::frame::{Header, MAX_HEADER};
use terrace_system::{failed_sync, open_regular};

use super::DirectoryTarget;
use crate::again::{lost, open_to_write, write_again};
use crate::file_calls::read_up_to;
use crate::{FRAME_ALIGNMENT, Place};

/// A scan reads this many bytes at once, which holds a frame's header in one piece.
const SCAN_READ_BYTES: usize = 1 << 20;

impl DirectoryTarget {
    /// Calls `found` with the frame headers from this offset of this segment on, and in all later segments, until it breaks.
    pub fn scan_from(
        &self,
        segment: u64,
        offset: u64,
        found: &mut dyn FnMut(Place, Header) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.check_present()?;
        for id in self.segments()?.into_iter().filter(|id| *id >= segment) {
            let Some(file) = self.find_unless_away(|| open_regular(&self.path(id)))? else { continue };
            let from = if id == segment { offset } else { 0 };
            if self.scan_segment(id, &file, from, found)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the end of the frames behind `start`, by their headers. The last one may be incomplete, if its writer died: then its end is
    /// behind that of the file. A frame that was placed there would be freed with it.
    pub(super) fn end_of_frames(&self, id: u64, start: u64) -> io::Result<u64> {
        let mut end = start;
        // Nearly always there are none. The scan never breaks off.
        let _ = self.scan_segment(id, &open_regular(&self.path(id))?, start, &mut |place, _| {
            end = place.end();
            ControlFlow::Continue(())
        })?;
        Ok(end)
    }

    /// Writes the frames of a segment again, because a sync of it failed. Returns the file, which is to be synced.
    ///
    /// Another process may append to the segment meanwhile. A frame that it has only begun counts as lost here: then this
    /// sync fails, and the next one looks again.
    pub(super) fn write_again(&self, id: u64) -> io::Result<File> {
        let path = self.path(id);
        let file = open_to_write(&path)?;
        // Asked before the frames are read: those that are committed later are not the concern of this sync.
        let named = self.ids.named_frames(self.number, id)?;
        let (mut whole, mut failed) = (0, None);
        let scanned = self.scan_segment(id, &file, 0, &mut |place, header| {
            let payload_at = place.offset + header.written_len() as u64;
            failed = match write_again((&file, place.offset), (&file, payload_at), self.store, place, &header) {
                Ok(true) => None,
                Ok(false) => Some(lost(&path)),
                Err(e) => Some(e),
            };
            whole += 1;
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // Frames whose headers are lost were not found.
        if scanned.is_break() || whole < named {
            return Err(failed.unwrap_or_else(|| lost(&path)));
        }
        failed_sync::forget(&file)?;
        Ok(file)
    }

    fn scan_segment(
        &self,
        id: u64,
        file: &File,
        start: u64,
        found: &mut dyn FnMut(Place, Header) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let length = file.metadata()?.len();
        let mut at = start.next_multiple_of(FRAME_ALIGNMENT);
        let mut buffer = vec![0; SCAN_READ_BYTES];
        let (mut from, mut held) = (0, 0);
        while at < length {
            if at < from || (at + MAX_HEADER as u64 > from + held && from + held < length) {
                at = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
                    Ok(data) => data.next_multiple_of(FRAME_ALIGNMENT).max(at),
                    // Only a hole is left.
                    Err(_) => break,
                };
                from = at;
                held = read_up_to(file, &mut buffer, at)? as u64;
            }
            let bytes = buffer.get((at - from) as usize..held as usize).unwrap_or_default();
            let place = Place { segment: id, offset: at, length: 0 };
            match Header::read(bytes, self.store, place) {
                Ok(header) => {
                    let length = header.frame_len();
                    if found(Place { length: length as u32, ..place }, header).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    at = (at + length).next_multiple_of(FRAME_ALIGNMENT);
                }
                Err(_) => at += FRAME_ALIGNMENT,
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
