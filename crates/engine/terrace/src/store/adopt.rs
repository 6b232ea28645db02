//! Makes files of other programs objects, without copying their bytes.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

use terrace_catalog::Replica;
use terrace_codec::Encoding;
use terrace_format::frame;
use terrace_format::key::show;
use terrace_system::open_regular;
use terrace_tier::{Adoption, FileStore, PLAIN_SEGMENT_BIT};

use super::Store;
use super::put::Put;
use crate::devices::{Device, with_scratch};
use crate::place::PutOptions;
use crate::report::TierState;
use crate::sparse::SparseReader;
use crate::write::{Draft, Receipt};
use crate::{Error, Result};

const NO_TARGET_REASON: &str =
    "no tier of layout `plain` is on its file system, or hard links to it are forbidden; `terrace put` copies it";
const CHANGED_REASON: &str = "the file changed while it was read; adopt it again when it is at rest";

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
        self.engine.mover.follow_all()?;
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
    let mut bytes = SparseReader::new(open_regular(&path).map_err(failed())?, adopted.len());
    draft.fill_by(&mut bytes, |draft, raw| {
        draft.add_made(raw, |identity| {
            let described = with_scratch(|scratch| {
                let frame = frame::encode(identity, Encoding::NONE, raw, scratch).map_err(io::Error::other)?;
                files.describe_frame(file, &frame)
            });
            let place = described.map_err(failed())?;
            Ok(Replica { target: device.id, place, stored: raw.len() as u32, encoding: Encoding::NONE })
        })
    })?;
    let now = source.metadata().map_err(failed())?;
    // A clone does not follow its source.
    let is_same =
        how == Adoption::Cloned || (state(&now), change_time(&now)) == (state(&adopted), change_time(&adopted));
    if is_same && draft.offset == adopted.len() { Ok(()) } else { Err(changed()) }
}

fn state(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn change_time(metadata: &Metadata) -> (i64, i64) {
    (metadata.ctime(), metadata.ctime_nsec())
}
