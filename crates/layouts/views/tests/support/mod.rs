//! Code that several tests use.

#![allow(dead_code)]

pub mod ast;
pub mod declare;
pub mod oracle;

/// The testkit's generator, with what declarations need.
pub struct Random(terrace_testkit::Random);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(terrace_testkit::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    pub fn list<T>(&mut self, least: u64, most: u64, mut make: impl FnMut(&mut Random) -> T) -> Vec<T> {
        (0..least + self.below(most - least + 1)).map(|_| make(self)).collect()
    }
}
