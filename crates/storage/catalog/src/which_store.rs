//! The evidence of the store that a log belongs to, where the id comes from a place that may be damaged: with a wrong digit, the whole log seems
//! to be another store's, or damaged.

use std::path::Path;

use crate::chunks::first_chunk;
use crate::log::{read_record_seals, snapshot, snapshots};
use crate::seal::Seal;
use crate::{Error, Result};

/// Reads the first seals of each file of the log in `folder`, and of each snapshot there.
///
/// # Errors
/// If a file cannot be read.
pub fn read_seals(folder: &Path) -> Result<Vec<Seal>> {
    let mut seals = read_record_seals(folder)?;
    for sequence in snapshots(folder).map_err(Error::io(format!("listing {}", folder.display())))? {
        let path = snapshot(folder, sequence);
        seals.extend(first_chunk(&path).map_err(Error::io(format!("reading {}", path.display())))?);
    }
    Ok(seals)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::log::{Log, Tail};
    use crate::{Attributes, Catalog, Edit};

    #[test]
    fn records_and_snapshots_tell_their_store_also_beside_damaged_ones() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("log");
        assert!(read_seals(&folder).unwrap().is_empty(), "there is no log");
        let catalog = Catalog::open(&dir.path().join("catalog"), Log::open(&folder, 7).unwrap()).unwrap();
        for key in [b"a", b"b", b"c"] {
            let (key, attributes, object) = (key.to_vec(), Attributes::default(), catalog.next_id().unwrap());
            let edit = Edit::Put { key, object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() };
            catalog.commit(edit.into()).unwrap();
        }
        let of = |store| read_seals(&folder).unwrap().iter().filter(|seal| seal.is_of(store)).count();
        assert_eq!((of(7), of(6)), (3, 0));
        let (Tail { sequence, file, .. }, _) = catalog.write_snapshot(&dir.path().join("new")).unwrap();
        fs::rename(dir.path().join("new"), snapshot(&folder, sequence)).unwrap();
        assert_eq!((of(7), of(6)), (4, 0));
        let path = folder.join(format!("{file:016x}.log"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[60] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!((of(7), of(6)), (3, 0));
        fs::write(&path, &bytes[..9]).unwrap();
        assert_eq!(of(7), 1);
    }
}
