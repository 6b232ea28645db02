//! Rebuilds damaged and deleted parts of replicas from the other replicas.

use std::ops::Range;

use crate::attempt::{Attempt, AttemptError, attempts};
use crate::dataset::Dataset;
use crate::loaded::{Loaded, Projection};
use crate::owed::Owed;
use crate::shared::Shared;
use crate::sources::Sources;
use crate::state::State;
use crate::writer::Writer;
use crate::{Error, Result};

/// The store verifies checksums of chunks of this size, so damage is recorded with this granularity.
const VERIFIED_CHUNK_BYTES: u64 = 64 << 10;

/// The findings of a repair.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Files of replicas that the repair checked.
    pub files: u64,
    /// Files that were missing.
    pub gone: u64,
    /// Extents that were unreadable.
    pub bad: u64,
    /// Files with bytes that no other replica can provide.
    pub lost: u64,
}

impl Dataset {
    /// Reads every replica completely and rebuilds missing and unreadable parts from the others. Bytes that no other
    /// replica has stay unreadable, so that no reader takes them for valid; with `accept_loss` they become zeros.
    pub fn repair(&self, accept_loss: bool) -> Result<Repaired> {
        let shared = &self.shared;
        let (loaded, state) = shared.load()?;
        let mut found = Repaired { files: loaded.files.len() as u64, ..Repaired::default() };
        // Unreadable ranges that no other replica has.
        let mut alone: Vec<(usize, Range<u64>)> = Vec::new();
        for (number, file) in loaded.files.iter().enumerate() {
            if state.object(number).is_none() {
                found.gone += 1;
                continue;
            }
            let extents = match shared.store.locate(&file.key) {
                Ok(location) => location.extents,
                Err(terrace::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            for extent in extents {
                let mut bytes = vec![0; extent.length as usize];
                match shared.store.read_at(&file.key, extent.offset, &mut bytes) {
                    Ok(_) => {}
                    Err(terrace::Error::Unreadable { .. }) => {
                        found.bad += 1;
                        let bytes = extent.offset..extent.offset + extent.length;
                        if shared.mark_damaged(number, bytes.clone())?.is_none() {
                            alone.push((number, bytes));
                        }
                    }
                    // Another process has since removed the object, or replaced it with a copy that needs no repair.
                    Err(terrace::Error::NotFound { .. } | terrace::Error::Replaced { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        shared.update_replicas(&mut |_| true, false)?;
        let (loaded, state) = shared.load()?;
        let whole = |file: &usize| state.owed(*file).is_some_and(Owed::is_empty);
        let lost = |file: &usize| !whole(file) || alone.iter().any(|(alone, _)| alone == file);
        found.lost = (0..loaded.files.len()).filter(lost).count() as u64;
        if accept_loss {
            for (file, bytes) in alone {
                shared.commit_owed_change(|writer| {
                    writer.add_owed(file, bytes.clone());
                    Ok(())
                })?;
            }
            shared.update_replicas(&mut |_| true, true)?;
        }
        Ok(found)
    }
}

impl Shared {
    /// Records unreadable bytes of a file as owed where other replicas have them, so that an update rebuilds them.
    /// Bytes that no other replica has are not recorded: they may become readable again if only their device is away.
    /// Returns the number of the replica that holds the file, if other replicas have all of these bytes.
    pub fn mark_damaged(&self, file: usize, bytes: Range<u64>) -> Result<Option<usize>> {
        self.commit_owed_change(|writer| {
            let (loaded, state) = (writer.loaded, writer.state);
            let Some(stored) = loaded.files.get(file) else { return Ok(None) };
            let (mut all, end) = (Some(stored.replica), bytes.end.min(stored.length()));
            let mut at = bytes.start;
            while at < end {
                let part = at..end.min((at / VERIFIED_CHUNK_BYTES + 1) * VERIFIED_CHUNK_BYTES);
                at = part.end;
                let mut out = vec![0; (part.end - part.start) as usize];
                match self.fetch_bytes(loaded, state, file, part.start, &mut out) {
                    Err(AttemptError::Damaged { .. }) => {}
                    done => {
                        done?;
                        continue;
                    }
                }
                match self.read_from_others(loaded, state, file, part.start, &mut out)? {
                    Some(sources) => {
                        writer.require_unchanged(sources.files(loaded));
                        writer.add_owed(file, part);
                    }
                    None => all = None,
                }
            }
            Ok(all)
        })
    }

    /// Reads bytes of a file from the other replicas and returns these sources, if they have all of the bytes.
    fn read_from_others(
        &self,
        loaded: &Loaded,
        state: &State,
        file: usize,
        at: u64,
        out: &mut [u8],
    ) -> Attempt<Option<Sources>> {
        let projection = Projection::File(file);
        let sources = Sources::of(loaded, state, projection);
        let plan = loaded.read_plan(&self.store, projection, &sources.used)?;
        match self.gather(loaded, state, (projection, &sources, &plan), at, out, true) {
            Ok(missing) => Ok((sources.all && missing.is_none()).then_some(sources)),
            Err(AttemptError::Damaged { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Applies and commits a change to the owed ranges of files, with retries.
    fn commit_owed_change<T>(&self, change: impl Fn(&mut Writer) -> Attempt<T>) -> Result<T> {
        for _ in attempts() {
            let alone = self.changing.write();
            let tried = self.try_load().and_then(|(loaded, state)| {
                let mut writer = Writer::new(self, &loaded, &state);
                let done = change(&mut writer)?;
                Ok((done, writer.commit()?))
            });
            drop(alone);
            match tried {
                Ok((done, later)) => {
                    self.schedule_updates(later);
                    return Ok(done);
                }
                Err(AttemptError::Changed | AttemptError::Damaged { .. }) => {}
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }
}
