//! Full disks: puts fail, nothing that was acknowledged does, and room comes back.

use super::checker::Checker;
use super::commands::Step;
use super::model::{Change, Loss};
use super::place::Fate;

/// Objects that fill the disk, each of this size or somewhat less.
const OBJECT_BYTES: u64 = 2_000_000;
/// Objects that no such disk holds.
const TOO_MANY: usize = 40;

impl Checker {
    /// Puts until the disk is full, sometimes killing a command, then deletes half, until there is room again.
    pub fn fill_and_clear(&mut self) -> Result<(), String> {
        *self.counts.faults.entry("FullDisk".into()).or_default() += 1;
        self.place.note("the disk is filled");
        let mut failed = false;
        for number in 0..TOO_MANY {
            let (step, version) = self.large_put(number);
            let fate = if self.random.once_in(8) { Fate::FailPoint("put:written@1".into()) } else { Fate::Lives };
            let run = self.place.start(&step.words, None, fate.clone());
            let ran = self.place.wait(vec![run]).remove(0);
            self.counts.commands += 1;
            failed = ran.code == Some(1);
            if failed {
                // It says whether it is stored; what is owed has one replica.
                self.model.versions.get_mut(&version).ok_or("no version")?.replicated = false;
                step.changes.iter().for_each(|change| self.model.apply(0, change, None));
            } else {
                self.took(&step, &ran, &fate)?;
            }
            self.look(Loss::Processes)?;
            if !failed && number % 6 == 5 {
                // Where all is full what is owed may stay owed.
                failed = self.must(&["sync"], &[0, 1])?.code == Some(1);
                if !failed {
                    self.model.synced();
                }
            }
            if failed {
                break;
            }
        }
        if !failed {
            return Err("the disk never was full".into());
        }
        self.read(Loss::Processes)?;
        let keys: Vec<String> = self.model.now(0).keys().cloned().collect();
        for (at, key) in keys.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
            // A name costs no room, and to delete makes some.
            let moved = format!("l0/frames/moved{at}");
            self.must(&["mv", key, &moved], &[0])?;
            self.model.apply(0, &Change::Rename(key.clone(), moved.clone()), Some(Loss::Processes));
            self.must(&["rm", &moved], &[0])?;
            self.model.apply(0, &Change::Remove(moved), Some(Loss::Processes));
        }
        self.read(Loss::Processes)?;
        self.must(&["sync"], &[0])?;
        self.model.synced();
        let (mut step, _) = self.large_put(TOO_MANY);
        step.words.extend(["--ack".into(), "durable".into()]);
        let run = self.place.start(&step.words, None, Fate::Lives);
        let ran = self.place.wait(vec![run]).remove(0);
        self.took(&step, &ran, &Fate::Lives)?;
        self.settle()?;
        for key in self.model.all().into_keys() {
            self.must(&["rm", &key], &[0])?;
            self.model.apply(0, &Change::Remove(key), Some(Loss::Processes));
        }
        self.settle()
    }

    fn large_put(&mut self, number: usize) -> (Step, u64) {
        let length = OBJECT_BYTES - self.random.below(OBJECT_BYTES / 4);
        self.chooser.put_of_length(&format!("l0/frames/large{number}"), length, &mut self.place, &mut self.model)
    }
}
