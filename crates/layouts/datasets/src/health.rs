//! Finds datasets that are not whole, for a report on the health of their store.

use terrace::report::{Finding, FindingCode, HealthState};

use crate::{Dataset, Datasets, Error, Result};

impl Datasets {
    /// Returns what is wrong with the datasets: files of replicas that somebody removed, and declarations that cannot be read. Reads no
    /// data.
    pub fn findings(&self) -> Vec<Finding> {
        match self.list() {
            Ok(names) => names.iter().filter_map(|name| self.finding(name)).collect(),
            Err(error) => vec![unreadable(format!("the datasets cannot be listed: {error}"))],
        }
    }

    fn finding(&self, name: &str) -> Option<Finding> {
        match self.handle(name).find_gone(name) {
            Ok(found) => found,
            // Somebody has removed it since it was listed, or is changing it.
            Err(Error::NotFound(_) | Error::Busy(_)) => None,
            Err(error) => Some(unreadable(format!("dataset {name}: {error}"))),
        }
    }
}

fn unreadable(message: String) -> Finding {
    let advice = "mend the declaration with `terrace dataset edit`, or run `terrace dataset rm`";
    Finding::new(FindingCode::DatasetIncomplete, HealthState::Damaged, message, advice)
}

impl Dataset {
    fn find_gone(&self, name: &str) -> Result<Option<Finding>> {
        let (loaded, state) = self.shared.load()?;
        let gone = (0..loaded.files.len()).filter(|file| state.object(*file).is_none()).count();
        if gone == 0 {
            return Ok(None);
        }
        let (health, advice) = if state.current(&loaded).contains(&true) {
            (HealthState::Warning, "run `terrace dataset repair`, which makes them from another replica")
        } else {
            (HealthState::Damaged, "run `terrace dataset repair`, which says what is lost")
        };
        let message = format!("{gone} of {} files of dataset {name} are gone", loaded.files.len());
        Ok(Some(Finding::new(FindingCode::DatasetIncomplete, health, message, advice)))
    }
}
