//! Power cuts: the store lies on a real file system whose device records every write and every flush.

use super::checker::Checker;
use super::model::{Loss, Model};

/// Images that are looked at for each cut, beside the one that the run goes on with.
const IMAGE_COUNT: u64 = 3;

/// The contents while commands ran, and after.
pub struct Moment {
    from: usize,
    to: usize,
    /// While the commands of a round ran: nothing of them is sure.
    during: Model,
    after: Model,
}

impl Checker {
    /// Notes a round that ran from this position on, before which all was as in `before`.
    pub fn note_moment(&mut self, from: usize, during: Model) -> Result<(), String> {
        let to = self.place.position()?;
        self.moments.push(Moment { from, to, during, after: self.model.clone() });
        Ok(())
    }

    /// Cuts the power: looks at what may be found after cuts at some moments, and goes on with one of them.
    pub fn cut_power(&mut self) -> Result<(), String> {
        *self.counts.faults.entry("PowerCut".into()).or_default() += 1 + IMAGE_COUNT;
        self.place.note("the power is cut");
        let last = self.place.position()?;
        let first = self.moments.first().map_or(last, |moment| moment.from);
        let mut record = self.place.power_off()?;
        let now = self.model.clone();
        for cut in 0..=IMAGE_COUNT {
            // Cuts at the last moment find the most to lose.
            let position = match self.random.below(3) {
                0 => last,
                _ => first + self.random.below((last - first) as u64 + 1) as usize,
            };
            self.model = self.model_at(position, &now);
            self.place.reboot();
            if cut == IMAGE_COUNT {
                let losses = self.place.restart_at(record, position, &mut self.random)?;
                self.place.note(format!("it goes on at {position} of {last}, with {losses:?}"));
                self.moments.clear();
                return self.after_cut();
            }
            let image = record.image_at(position, &mut self.random).map_err(|e| e.to_string())?;
            self.place.note(format!("a cut at {position} of {last}, with {:?}", image.losses()));
            let checked = self.after_cut();
            if checked.is_err() {
                self.place.keep_image();
            }
            let unmounted = image.unmount().map_err(|e| e.to_string());
            checked.and(unmounted)?;
        }
        Ok(())
    }

    fn model_at(&self, position: usize, now: &Model) -> Model {
        let Some(moment) = self.moments.iter().rev().find(|moment| moment.from <= position) else { return now.clone() };
        if moment.to <= position { moment.after.clone() } else { moment.during.clone() }
    }

    /// Durable objects are there, all objects are complete, and the store goes on.
    fn after_cut(&mut self) -> Result<(), String> {
        self.open_first()?;
        self.look(Loss::Power)?;
        self.model.forget_replicas();
        self.read(Loss::Power)?;
        self.settle()
    }
}
