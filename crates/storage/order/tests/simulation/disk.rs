//! The disk of a node: the frames that its target holds.

use std::collections::BTreeMap;

use terrace_format::Place;
use terrace_testkit::Random;

#[derive(Default)]
pub struct Disk {
    /// Whether each frame is synced.
    frames: BTreeMap<Place, bool>,
}

impl Disk {
    pub fn write(&mut self, place: Place) {
        self.frames.insert(place, false);
    }

    pub fn holds(&self, place: Place) -> bool {
        self.frames.contains_key(&place)
    }

    pub fn all(&self) -> impl Iterator<Item = Place> {
        self.frames.keys().copied()
    }

    pub fn sync(&mut self) {
        self.frames.values_mut().for_each(|is_synced| *is_synced = true);
    }

    /// A loss of power takes any of the frames that are not synced.
    pub fn lose_power(&mut self, random: &mut Random) -> usize {
        let before = self.frames.len();
        self.frames.retain(|_, is_synced| *is_synced || random.once_in(2));
        before - self.frames.len()
    }

    /// Gives back a place, which may be that of several adjacent frames.
    pub fn free(&mut self, place: Place) {
        self.frames.retain(|frame, _| !overlap(*frame, place));
    }
}

pub fn overlap(a: Place, b: Place) -> bool {
    a.segment == b.segment && a.offset < b.end() && b.offset < a.end()
}
