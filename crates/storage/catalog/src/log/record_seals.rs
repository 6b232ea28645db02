//! The seals of a log's records.

use std::path::Path;

use terrace_system::read_regular;

use super::replay::{u32_at, u64_at};
use super::{CHECKSUM_RANGE, RECORD_HEADER_BYTES, RECORD_MAGIC, files, name};
use crate::seal::Seal;
use crate::{Error, Result};

/// The most records of a file that are looked at.
const MAX_SEALS_PER_FILE: usize = 16;

/// Reads the seals of the first records of each file of the log in `folder`.
///
/// # Errors
/// If a file cannot be read.
pub fn read_record_seals(folder: &Path) -> Result<Vec<Seal>> {
    let mut seals = Vec::new();
    for file in files(folder).map_err(Error::io(format!("listing {}", folder.display())))? {
        let path = folder.join(name(file));
        let bytes = read_regular(&path).map_err(Error::io(format!("reading {}", path.display())))?;
        seals.extend(find_records(&bytes).take(MAX_SEALS_PER_FILE));
    }
    Ok(seals)
}

/// Finds what may be records: damage may be anywhere between them.
fn find_records(bytes: &[u8]) -> impl Iterator<Item = Seal> + '_ {
    let starts = bytes.windows(RECORD_MAGIC.len()).enumerate().filter(|(_, found)| *found == RECORD_MAGIC);
    starts.filter_map(|(start, _)| {
        let header = bytes[start..].get(..RECORD_HEADER_BYTES)?;
        let mut record = bytes[start..].get(..RECORD_HEADER_BYTES + u32_at(header, 8) as usize)?.to_vec();
        let checksum = u64_at(&record, CHECKSUM_RANGE.start);
        record[CHECKSUM_RANGE].fill(0);
        Some(Seal::new(record, checksum))
    })
}
