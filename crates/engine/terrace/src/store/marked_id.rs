//! Whether the marker of a bucket names the store whose log and frames are there. With a damaged digit, nothing there would seem to be the
//! store's: a salvage would find nothing, and the store that it makes would replace the log.

use std::io;
use std::path::{Path, PathBuf};

use terrace_catalog::{Seal, read_seals};
use terrace_format::frame::Header;
use terrace_tier::{NamedBlobs, SEGMENTS_PREFIX, TargetSettings, frame_place, marker_text};

use crate::config::{Config, TargetConfig, TierConfig};
use crate::home::{marked_id, refuse};
use crate::{Error, Result};

/// The most frames that are read, where the log does not tell the store.
const MAX_FRAMES_READ: usize = 8;
/// The number of seals by which another id is searched for.
const MAX_SEARCHED_SEALS: usize = 2;
/// Seals of more bytes are not searched with: two digits can be wrong in some 27,000 ways.
const MAX_SEARCHED_BYTES: usize = 16 << 10;
const HEX_DIGITS: u32 = 16;

/// A marker, and what is beside it.
pub struct Marked<'a> {
    /// Its place, for messages.
    pub place: &'a Path,
    pub blobs: &'a dyn NamedBlobs,
    /// The store's id and the target's number that the marker names.
    pub store: u64,
    pub number: u16,
}

/// Tells whether something belongs to the store with an id.
type IsOf = Box<dyn Fn(u64) -> bool>;

impl Marked<'_> {
    /// Compares the store's id with the log, whose copy is in `log`, and with frames and the markers of other targets if it is not the log's.
    ///
    /// # Errors
    /// If nothing is that store's, though there is something.
    pub fn check_store(&self, log: &Path, config: &Config) -> Result<()> {
        let mut seals = read_seals(log)?;
        if seals.iter().any(|seal| seal.is_of(self.store)) {
            return Ok(());
        }
        let others: Vec<u64> = config.log_copy_paths().filter_map(|path: &PathBuf| marked_id(path)).collect();
        let frames = self.read_frames().map_err(Error::io(format!("reading {}", self.place.display())))?;
        let nothing_is_there = seals.is_empty() && frames.is_empty();
        if nothing_is_there || others.contains(&self.store) || frames.iter().any(|is_of| is_of(self.store)) {
            return Ok(());
        }
        seals.retain(|seal| seal.length() <= MAX_SEARCHED_BYTES);
        seals.sort_by_key(Seal::length);
        let seals =
            seals.into_iter().take(MAX_SEARCHED_SEALS).map(|seal| -> IsOf { Box::new(move |id| seal.is_of(id)) });
        let known: Vec<IsOf> = seals.chain(frames.into_iter().take(MAX_SEARCHED_SEALS)).collect();
        let found = others.into_iter().chain(similar_ids(self.store)).find(|id| known.iter().any(|is_of| is_of(*id)));
        let reason = match found {
            Some(id) => format!(
                "its blob terrace-target names the store {:016x}, but the log or the frames there are those of the store {id:016x}: a digit in \
                 the blob is damaged. Write it again with the two lines `store {id:016x}` and `target {}`, and repeat this. Nothing was changed",
                self.store, self.number
            ),
            None => format!(
                "its blob terrace-target names the store {:016x}, but nothing of the log there, and none of the frames that were looked at, is \
                 that store's: the blob is damaged, or all of them are. If you know the id, from the file terrace-target of another target or \
                 the file `store` of a copy of the store's directory, write the blob again with the two lines `store ID` and `target {}`, and \
                 repeat this. Nothing was changed",
                self.store, self.number
            ),
        };
        Err(refuse(self.place, &reason))
    }

    /// Checks that the target's number is that of a target on a service, and not the one of another such target, which is at this place.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_number(&self, config: &Config, from: &TargetSettings) -> Result<()> {
        let on_services = || {
            let tiers = config.tiers.iter().filter(|tier| tier.service.is_some());
            tiers.flat_map(|tier| tier.targets.iter().map(move |target| (tier, target)))
        };
        let is_here = |tier: &TierConfig, target: &TargetConfig| {
            let has_other = |(name, value): (&String, &String)| {
                target.options.get(name).or(tier.options.get(name)).is_some_and(|other| other != value)
            };
            tier.service == from.service && target.path == from.path && !from.options.iter().any(has_other)
        };
        let named = on_services().find(|(_, target)| target.number == Some(self.number));
        let mut here = on_services().filter(|(tier, target)| is_here(tier, target));
        let right = match (named, here.next(), here.next()) {
            // A bucket that was moved has another path than the configuration says.
            (Some(_), None, _) | (Some(_), Some(_), Some(_)) => return Ok(()),
            (Some((tier, target)), Some(_), None) if is_here(tier, target) => return Ok(()),
            (_, Some((_, right)), None) => right.number,
            (None, ..) => None,
        };
        let advice = match right {
            Some(number) => format!(
                "Write it again with the two lines `{}`",
                marker_text(self.store, number).trim_end().replace('\n', "` and `")
            ),
            None => "Write its second line again, `target N`, with the number of this target in the blob terrace.toml"
                .into(),
        };
        let number = self.number;
        let reason = format!(
            "its blob terrace-target says that it is the target {number}, but in the store's configuration that is another one. {advice}, and \
             repeat this. Nothing was changed"
        );
        Err(refuse(self.place, &reason))
    }

    /// Reads some frames.
    fn read_frames(&self) -> io::Result<Vec<IsOf>> {
        let mut frames: Vec<IsOf> = Vec::new();
        for name in self.blobs.list(SEGMENTS_PREFIX)?.iter().take(MAX_FRAMES_READ) {
            let bytes = match self.blobs.read(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                bytes => bytes?,
            };
            let Some(place) = frame_place(name, bytes.len()) else { continue };
            frames.push(Box::new(move |store| Header::read(&bytes, store, place).is_ok()));
        }
        Ok(frames)
    }
}

/// Returns the ids that differ in one or two digits.
fn similar_ids(id: u64) -> impl Iterator<Item = u64> {
    let changes =
        || (0..HEX_DIGITS).flat_map(|digit| (1..u64::from(HEX_DIGITS)).map(move |change| change << (4 * digit)));
    changes()
        .map(move |change| id ^ change)
        .chain(changes().flat_map(move |first| changes().map(move |other| id ^ first ^ other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_up_to_two_other_digits_are_similar() {
        let id = 0x0123_4567_89ab_cdef;
        for other in [0x0123_4567_89ab_cdee, 0xf123_4567_89ab_cdef, 0x0023_4567_99ab_cdef] {
            assert!(similar_ids(id).any(|similar| similar == other), "{other:016x}");
        }
        assert!(!similar_ids(id).any(|similar| similar == id ^ 0x111));
    }
}
