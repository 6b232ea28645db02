//! Bzip2.

use bzip2::{Action, Compress, Compression, Decompress, Status};

use super::{Result, text};

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    let level = Compression::new(u32::from(level.clamp(1, 9).unsigned_abs()));
    // The maximum size of incompressible bytes, according to the format. They are written to the buffer's free capacity, which is not
    // filled with zeros first.
    out.reserve(source.len() + source.len() / 100 + 600);
    let mut compress = Compress::new(level, 0);
    match compress.compress_vec(source, out, Action::Finish).map_err(text)? {
        Status::StreamEnd => Ok(()),
        status => Err(format!("{status:?}")),
    }
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let mut decompress = Decompress::new(false);
    let status = decompress.decompress(stored, target).map_err(text)?;
    let length = usize::try_from(decompress.total_out()).map_err(text)?;
    // If the target is full, the decoder stops before it reads the end mark.
    match status {
        Status::StreamEnd => Ok(length),
        _ => match decompress.decompress(&stored[consumed(&decompress, stored)..], &mut []).map_err(text)? {
            Status::StreamEnd => Ok(length),
            status => Err(format!("{status:?}")),
        },
    }
}

fn consumed(decompress: &Decompress, stored: &[u8]) -> usize {
    usize::try_from(decompress.total_in()).map_or(stored.len(), |n| n.min(stored.len()))
}
