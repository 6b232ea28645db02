//! What is damaged or deleted is made again of the other replicas.

use std::ops::Range;

use crate::dataset::{ATTEMPTS, Dataset, Shared};
use crate::loaded::{Loaded, Seen};
use crate::owed::Owed;
use crate::read::{Attempt, Trouble};
use crate::sources::Sources;
use crate::state::State;
use crate::writer::Writer;
use crate::{Error, Result};

/// What the store verifies at once.
const CHUNK: u64 = 64 << 10;

/// What a repair found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Files of replicas that were looked at.
    pub files: u64,
    /// Files that were gone.
    pub gone: u64,
    /// Parts that could not be read.
    pub bad: u64,
    /// Files that lack what no other replica has.
    pub lost: u64,
}

impl Dataset {
    /// Reads all of every replica, and makes anew from the others what is gone or cannot be read. What the others lack stays
    /// unreadable, so that nobody takes it for good; with `accept_loss` it becomes zeros.
    pub fn repair(&self, accept_loss: bool) -> Result<Repaired> {
        let shared = &self.shared;
        let (loaded, state) = shared.now()?;
        let mut found = Repaired { files: loaded.files.len() as u64, ..Repaired::default() };
        // What cannot be read, and no other replica has.
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
                        if shared.damaged(number, bytes.clone())?.is_none() {
                            alone.push((number, bytes));
                        }
                    }
                    // It was replaced meanwhile, and is as good as new.
                    Err(terrace::Error::NotFound { .. } | terrace::Error::Replaced { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        shared.settle(&mut |_| true, false)?;
        let (loaded, state) = shared.now()?;
        let whole = |file: &usize| state.owed(*file).is_some_and(Owed::is_empty);
        let lost = |file: &usize| !whole(file) || alone.iter().any(|(alone, _)| alone == file);
        found.lost = (0..loaded.files.len()).filter(lost).count() as u64;
        if accept_loss {
            for (file, bytes) in alone {
                shared.note(|writer| {
                    writer.lack(file, bytes.clone());
                    Ok(())
                })?;
            }
            shared.settle(&mut |_| true, true)?;
        }
        Ok(found)
    }
}

impl Shared {
    /// Notes that bytes of a file cannot be read: it lacks from now on what others have, which is then made again. What nobody else
    /// has is not noted: it is still there when its device is. Returns the file's replica, if others have all.
    pub fn damaged(&self, file: usize, bytes: Range<u64>) -> Result<Option<usize>> {
        self.note(|writer| {
            let (loaded, state) = (writer.loaded, writer.state);
            let Some(stored) = loaded.files.get(file) else { return Ok(None) };
            let (mut all, end) = (Some(stored.replica), bytes.end.min(stored.length()));
            let mut at = bytes.start;
            while at < end {
                let part = at..end.min((at / CHUNK + 1) * CHUNK);
                at = part.end;
                let mut out = vec![0; (part.end - part.start) as usize];
                match self.fetch(loaded, state, file, part.start, &mut out) {
                    Err(Trouble::Damaged { .. }) => {}
                    done => {
                        done?;
                        continue;
                    }
                }
                match self.others_have(loaded, state, file, part.start, &mut out)? {
                    Some(sources) => {
                        writer.unchanged(sources.files(loaded));
                        writer.lack(file, part);
                    }
                    None => all = None,
                }
            }
            Ok(all)
        })
    }

    /// The sources of a file, if they have some of its bytes.
    fn others_have(
        &self,
        loaded: &Loaded,
        state: &State,
        file: usize,
        at: u64,
        out: &mut [u8],
    ) -> Attempt<Option<Sources>> {
        let seen = Seen::File(file);
        let sources = Sources::of(loaded, state, seen);
        let plan = loaded.reading(&self.store, seen, &sources.used)?;
        match self.gather(loaded, state, (seen, &sources, &plan), at, out, true) {
            Ok(missing) => Ok((sources.all && missing.is_none()).then_some(sources)),
            Err(Trouble::Damaged { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Changes what files lack.
    fn note<T>(&self, change: impl Fn(&mut Writer) -> Attempt<T>) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let alone = self.changing.write();
            let tried = self.look().and_then(|(loaded, state)| {
                let mut writer = Writer::new(self, &loaded, &state);
                let done = change(&mut writer)?;
                Ok((done, writer.commit()?))
            });
            drop(alone);
            match tried {
                Ok((done, later)) => {
                    self.follower.expect(self, later);
                    return Ok(done);
                }
                Err(Trouble::Changed | Trouble::Damaged { .. }) => {}
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }
}
