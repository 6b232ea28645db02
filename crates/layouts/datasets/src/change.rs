//! Adds and removes views and replicas of a dataset that is in use.

use terrace_views::model::Sizes;

use crate::attempt::attempts;
use crate::attempt::{Attempt, AttemptError};
use crate::dataset::Dataset;
use crate::declared::{Declared, declares_same_variables};
use crate::loaded::Loaded;
use crate::owed::Owed;
use crate::shared::Shared;
use crate::state::State;
use crate::{Error, Result, keys};

impl Dataset {
    /// Replaces the declared attributes, views and replicas. New replicas are built from those that stay; the others are removed.
    /// Processes that have the dataset open use the new declaration from their next request on.
    ///
    /// # Errors
    /// [`Error::Refused`] if the dataset section differs in more than attributes, if a new replica cannot be built from those that stay, or if
    /// a removed replica is the only one that stores some bytes.
    pub fn change(&self, declared: &Declared) -> Result<()> {
        let shared = &self.shared;
        declared.check_store_fit(shared.store.config())?;
        for _ in attempts() {
            let alone = shared.changing.write();
            let tried = shared.try_load().and_then(|(loaded, state)| shared.try_change(&loaded, &state, declared));
            drop(alone);
            match tried {
                Ok(()) => {
                    shared.set_rules(declared)?;
                    return self.settle();
                }
                Err(AttemptError::Changed | AttemptError::Damaged { .. }) => {}
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(shared.name.clone()))
    }
}

impl Shared {
    fn try_change(&self, loaded: &Loaded, state: &State, declared: &Declared) -> Attempt<()> {
        let refused = |reason: String| Err(Error::Refused(reason).into());
        let (old, new) = (&loaded.declared.model, &declared.model);
        if !declares_same_variables(old, new) {
            return refused(
                "the dataset section differs; only attributes, views and replicas can change, else add another dataset"
                    .into(),
            );
        }
        // Check that the layouts are also valid for arrays of their initial length: arrays may shrink back to it.
        Loaded::new(&self.name, loaded.object.clone(), declared.clone(), Sizes::new())?;
        let next = Loaded::new(&self.name, loaded.object.clone(), declared.clone(), loaded.sizes.clone())?;
        // Maps a new replica to the old one with the same files and layouts, if there is one.
        let stays = |number: usize| {
            let files = next.files.get(next.replicas.get(number)?.files())?;
            loaded.replicas.iter().position(|before| {
                let own = loaded.files.get(before.files()).unwrap_or_default();
                let alike = own.iter().zip(files).all(|(a, b)| a.key == b.key && a.layout.is_same(&b.layout));
                own.len() == files.len() && alike
            })
        };
        let kept: Vec<Option<usize>> = (0..next.replicas.len()).map(stays).collect();
        let sources: Vec<usize> =
            kept.iter().enumerate().filter(|(_, old)| old.is_some()).map(|(new, _)| new).collect();
        let before: Vec<usize> = kept.iter().flatten().copied().collect();
        for (number, replica) in new.replicas.iter().enumerate() {
            if kept.get(number) == Some(&None) && !new.made_of(replica, &sources) {
                return refused(format!(
                    "the replica {} cannot be made of those that stay; change one at a time, and remove the old one last",
                    replica.name
                ));
            }
        }
        for (_, replica) in old.replicas.iter().enumerate().filter(|(number, _)| !before.contains(number)) {
            if !old.made_of(replica, &before) {
                return refused(format!(
                    "the replica {} stores what no replica does that stays; add another one first",
                    replica.name
                ));
            }
        }
        let current = state.current(loaded);
        let behind = before.iter().find(|number| current.get(**number) != Some(&true));
        let goes = (0..loaded.replicas.len()).any(|number| !before.contains(&number));
        if let Some(number) = behind.filter(|_| goes) {
            let name = old.replicas.get(*number).map_or("", |replica| &replica.name);
            return refused(format!("the replica {name} has not followed yet; `terrace sync` waits until it has"));
        }
        self.commit_change(loaded, state, &next, &kept)
    }

    fn commit_change(&self, loaded: &Loaded, state: &State, next: &Loaded, kept: &[Option<usize>]) -> Attempt<()> {
        let key = keys::declaration_key(&self.name);
        let mut batch = self.store.batch();
        batch.unchanged(&key, &loaded.object);
        let text = next.declared.text.as_bytes();
        batch.write(&key, loaded.object.id, 0, text, None)?;
        batch.set_length(&key, text.len() as u64);
        let made = |file: &&crate::stored::StoredFile| kept.get(file.replica) == Some(&None);
        for file in next.files.iter().filter(made) {
            batch.replace(&file.key, file.length(), Owed::all().to_attributes())?;
        }
        for (number, file) in loaded.files.iter().enumerate() {
            let stays = kept.contains(&Some(file.replica)) || next.files.iter().any(|new| new.key == file.key);
            match state.object(number) {
                Some(object) if !stays => {
                    batch.named(&file.key, object.id);
                    batch.remove(&file.key);
                }
                Some(object) => batch.unchanged(&file.key, object),
                None => {}
            }
        }
        batch.commit()?;
        Ok(())
    }
}
