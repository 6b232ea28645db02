//! What is damaged or deleted is made again of the other replicas.

use std::ops::Range;

use crate::dataset::{ATTEMPTS, Dataset, Shared};
use crate::owed::Owed;
use crate::read::Trouble;
use crate::writer::Writer;
use crate::{Error, Result};

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
                        shared.damaged(number, extent.offset..extent.offset + extent.length)?;
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
        found.lost = (0..loaded.files.len()).filter(|file| !whole(file)).count() as u64;
        if accept_loss {
            shared.settle(&mut |_| true, true)?;
        }
        Ok(found)
    }
}

impl Shared {
    /// Notes that bytes of a file cannot be read: it lacks them from now on. Returns its replica.
    pub fn damaged(&self, file: usize, bytes: Range<u64>) -> Result<usize> {
        for _ in 0..ATTEMPTS {
            let alone = self.changing.write();
            let tried = self.look().and_then(|(loaded, state)| {
                let replica = loaded.files.get(file).map_or(0, |file| file.replica);
                let mut writer = Writer::new(self, &loaded, &state);
                writer.lack(file, bytes.clone());
                Ok((replica, writer.commit()?))
            });
            drop(alone);
            match tried {
                Ok((replica, later)) => {
                    self.follower.expect(self, later);
                    return Ok(replica);
                }
                Err(Trouble::Changed | Trouble::Damaged { .. }) => {}
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }
}
