//! Makes files of other programs objects, without copying their bytes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use terrace_catalog::Replica;
use terrace_codec::Encoding;
use terrace_format::frame::{self, with_scratch};
use terrace_format::key::show;
use terrace_system::open_regular;
use terrace_tier::{Adoption, FileStore, PLAIN_SEGMENT_BIT};
use xxhash_rust::xxh3::xxh3_64;

use super::Store;
use super::put::Put;
use crate::devices::Device;
use crate::place::PutOptions;
use crate::report::TierState;
use crate::sparse::{ReadHoles, SparseReader};
use crate::write::{Draft, Receipt};
use crate::{Error, Result};

const NO_TIER_REASON: &str = "no working tier of layout `plain` takes an object of this name (rules may forbid it, and no part of the name may \
                              be longer than 255 bytes); `terrace put` copies it";
const NO_TARGET_REASON: &str =
    "no tier of layout `plain` is on its file system, or hard links to it are forbidden; `terrace put` copies it";
const CHANGED_REASON: &str = "the file changed while it was read; adopt it again when nobody writes to it";
/// A file whose attributes change all the time is read again this many times before its adoption fails.
const MAX_CHECKS: usize = 8;

/// A target that has adopted a file.
struct Adopter<'a> {
    device: &'a Device,
    files: &'a dyn FileStore,
    /// The number of the plain file.
    file: u64,
    how: Adoption,
}

impl Store {
    /// Makes a file an object without copying its bytes: a clone or, where the file system has none, a hard link of it becomes the
    /// object's plain file. The file is read once, for its checksums, and never changed.
    ///
    /// # Errors
    /// Those of [`Store::put`], and [`Error::Io`] if no target with plain files can clone or link the file, or if it changes meanwhile.
    pub fn adopt(&self, key: &[u8], source: &File, options: &PutOptions) -> Result<(Adoption, Receipt)> {
        let failed = || Error::io(format!("adopting a file as {:?}", show(key)));
        let mut how = Adoption::Cloned;
        let adopt = |draft: &mut Draft<'_>| {
            let begun = source.metadata().map_err(failed())?;
            let adopter = self.find_adopter(draft, source).map_err(failed())?;
            how = adopter.how;
            let described = describe(draft, &adopter, source, &begun);
            if described.is_err() || draft.extents.is_empty() && !draft.staged {
                // No object will name the file. If it cannot be removed now, the sweep of a later opening removes it.
                let _ = adopter.device.target.discard(adopter.file);
            }
            described
        };
        let (mut receipt, ack) = self.put_by(Put::alone(key), options, adopt, |_| ())?;
        self.engine.names.update_all()?;
        self.wait_if_asked(&mut receipt, ack)?;
        Ok((how, receipt))
    }

    /// Makes the file a plain file of the first target that can, one of a persistent tier if possible.
    fn find_adopter(&self, draft: &Draft<'_>, source: &File) -> io::Result<Adopter<'_>> {
        let engine = &self.engine;
        let rules = engine.planning.rules.now();
        let takes = |device: &&Device| {
            let is_plain = rules.is_plain(device.tier, draft.key) && draft.allows(device.tier);
            is_plain && device.state() == TierState::Ok
        };
        let mut devices: Vec<&Device> = engine.tiers.devices.iter().filter(takes).collect();
        if devices.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, NO_TIER_REASON));
        }
        devices.sort_by_key(|device| !engine.tiers.tier(device).persistent);
        for device in devices {
            let Some(files) = device.target.files() else { continue };
            let file = PLAIN_SEGMENT_BIT | engine.catalog.next_id().map_err(io::Error::other)?;
            match files.adopt(file, source) {
                Ok(Some(how)) => return Ok(Adopter { device, files, file, how }),
                Ok(None) => {}
                Err(error) => {
                    // As above.
                    let _ = device.target.discard(file);
                    return Err(error);
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::Unsupported, NO_TARGET_REASON))
    }
}

/// Reads the adopted file, and writes the headers of its frames. Checks that its owner does not change it meanwhile: the frames would mix
/// its states.
fn describe(draft: &mut Draft<'_>, adopter: &Adopter<'_>, source: &File, begun: &Metadata) -> Result<()> {
    let Adopter { device, files, file, how } = *adopter;
    let key = show(draft.key);
    let failed = || Error::io(format!("reading what {key:?} adopts"));
    let changed = || failed()(io::Error::other(CHANGED_REASON));
    // The link itself has changed the time at which the file's attributes were changed.
    let adopted = source.metadata().map_err(failed())?;
    if state(&adopted) != state(begun) {
        return Err(changed());
    }
    let path = device.target.file(file).ok_or(io::ErrorKind::NotFound.into()).map_err(failed())?;
    let opened = open_regular(&path).map_err(failed())?;
    let mut read = Blocks::default();
    draft.fill_by(&mut SparseReader::new(opened, adopted.len()), |draft, raw| {
        read.add(draft.offset, raw);
        draft.add_made(raw, |identity| {
            let described = with_scratch(|scratch| {
                let frame = frame::encode(identity, Encoding::NONE, raw, scratch).map_err(io::Error::other)?;
                files.describe_frame(file, &frame)
            });
            let place = described.map_err(failed())?;
            Ok(Replica { target: device.id, place, stored: raw.len() as u32, encoding: Encoding::NONE })
        })
    })?;
    // A clone does not follow its source.
    let is_same = how == Adoption::Cloned
        || is_at_rest(source, &adopted, || {
            Blocks::of(&path, adopted.len(), draft.block_bytes()).map(|now| now == read)
        })
        .map_err(failed())?;
    if is_same && draft.offset == adopted.len() { Ok(()) } else { Err(changed()) }
}

/// The blocks of a file's bytes: the offset and a checksum of each.
#[derive(Default, PartialEq, Eq)]
struct Blocks(Vec<(u64, u64)>);

impl Blocks {
    fn of(path: &Path, length: u64, block_bytes: usize) -> io::Result<Blocks> {
        let mut bytes = SparseReader::new(open_regular(path)?, length);
        let (mut all, mut offset, mut block) = (Blocks::default(), 0, Vec::with_capacity(block_bytes));
        loop {
            block.clear();
            offset += bytes.pass_hole()?;
            bytes.by_ref().take(block_bytes as u64).read_to_end(&mut block)?;
            if block.is_empty() {
                return Ok(all);
            }
            all.add(offset, &block);
            offset += block.len() as u64;
        }
    }

    fn add(&mut self, offset: u64, raw: &[u8]) {
        self.0.push((offset, xxh3_64(raw)));
    }
}

/// Returns whether the owner of a file has left its bytes alone since it was adopted. `holds_same` reads it again.
///
/// A link that is made or removed, as by another adoption of the file, changes the same time as a write whose other traces are removed. Only
/// the bytes tell: those of a second read, during which nothing has changed.
fn is_at_rest(source: &File, adopted: &Metadata, holds_same: impl Fn() -> io::Result<bool>) -> io::Result<bool> {
    let mut seen = change_time(adopted);
    for _ in 0..MAX_CHECKS {
        let now = source.metadata()?;
        if state(&now) != state(adopted) {
            return Ok(false);
        }
        if change_time(&now) == seen {
            return Ok(true);
        }
        seen = change_time(&now);
        if !holds_same()? {
            return Ok(false);
        }
    }
    Ok(false)
}

fn state(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn change_time(metadata: &Metadata) -> (i64, i64) {
    (metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Two adoptions at once each made a link of the file, and each refused it because of the other one's.
    #[test]
    fn a_new_link_is_no_change_but_a_write_without_a_new_time_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("owned");
        fs::write(&path, [7; 3000]).expect("writes");
        let source = File::options().read(true).write(true).open(&path).expect("opens");
        let adopted = source.metadata().expect("asks");
        let read = Blocks::of(&path, 3000, 1024).expect("reads");
        let checks = Cell::new(0);
        let is_at_rest = || {
            is_at_rest(&source, &adopted, || {
                checks.set(checks.get() + 1);
                Blocks::of(&path, 3000, 1024).map(|now| now == read)
            })
            .expect("checks")
        };
        assert!(is_at_rest() && checks.get() == 0);
        let changes = |seen: &Metadata| source.metadata().expect("asks").ctime_nsec() != seen.ctime_nsec();
        let mut number = 0;
        while !changes(&adopted) {
            number += 1;
            fs::hard_link(&path, dir.path().join(number.to_string())).expect("links");
        }
        assert!(is_at_rest() && checks.get() == 1);
        source.write_all_at(&[8], 2000).expect("writes");
        source.set_modified(adopted.modified().expect("a time")).expect("sets the time");
        assert!(!is_at_rest() && checks.get() == 2);
    }
}
