//! How much is fetched for a read: about what is read here and there, and more and more of what is read in order.

use std::collections::HashMap;
use std::ops::Range;

use terrace_catalog::Object;

/// Ranges that are fetched begin and end at multiples of this, or at the object's end.
const UNIT_BYTES: u64 = 64 << 10;
/// Objects up to this length are fetched as a whole.
const MAX_WHOLE_BYTES: u64 = 256 << 10;
/// At most this is fetched at a time.
pub const MAX_WINDOW_BYTES: u64 = 8 << 20;
/// Reads in order fetch up to a multiple of this, the length of an extent.
const EXTENT_BYTES: u64 = 1 << 20;
/// The number of objects whose reads are remembered.
const MAX_REMEMBERED_OBJECTS: usize = 1024;

/// How objects are read, by their numbers.
#[derive(Default)]
pub struct Courses(HashMap<u64, Course>);

#[derive(Clone, Copy, Default)]
struct Course {
    /// The end of what was fetched last.
    next: u64,
    /// The bytes that were fetched in order.
    run: u64,
}

impl Courses {
    /// Returns the range to fetch for a read of `start..end` whose first byte is not here. It begins at or before `start`.
    pub fn window(&mut self, object: &Object, start: u64, end: u64) -> Range<u64> {
        if object.length <= MAX_WHOLE_BYTES {
            return 0..object.length;
        }
        if self.0.len() >= MAX_REMEMBERED_OBJECTS && !self.0.contains_key(&object.id) {
            self.0.clear();
        }
        let course = self.0.entry(object.id).or_default();
        let first = start / UNIT_BYTES * UNIT_BYTES;
        let end = end.min(first + MAX_WINDOW_BYTES);
        let mut stop = end.next_multiple_of(UNIT_BYTES);
        let is_in_order = course.run > 0 && (course.next.saturating_sub(UNIT_BYTES)..=course.next).contains(&start);
        if is_in_order {
            let ahead = first + course.run.min(MAX_WINDOW_BYTES);
            let ahead = if course.run >= EXTENT_BYTES { ahead / EXTENT_BYTES * EXTENT_BYTES } else { ahead };
            stop = stop.max(ahead);
        }
        let stop = stop.min(object.length);
        let run = if is_in_order { course.run } else { 0 };
        *course = Course { next: stop, run: run + (stop - first) };
        first..stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(length: u64) -> Object {
        Object { id: 1, generation: 1, length, want: 1, attributes: Default::default(), inline: None }
    }

    #[test]
    fn reads_in_order_fetch_more_and_more_and_others_what_they_read() {
        let mut courses = Courses::default();
        let long = object(100 << 20);
        let (mut at, mut lengths) = (0, Vec::new());
        while at < 64 << 20 {
            let window = courses.window(&long, at, at + 4096);
            assert!(window.start <= at && window.end > at);
            lengths.push((window.end - window.start) >> 10);
            at = window.end;
        }
        assert_eq!(lengths[..4], [64, 64, 128, 256]);
        assert!(lengths.len() < 20 && lengths.contains(&(8 << 10)), "{lengths:?}");
        for at in [70 << 20, 3 << 20, 50 << 20, 0] {
            assert_eq!(courses.window(&long, at + 100, at + 5000), at..at + (64 << 10));
        }
        assert_eq!(courses.window(&long, (30 << 20) - 10, 90 << 20).start, (30 << 20) - (64 << 10));
        assert_eq!(courses.window(&object(200_000), 150_000, 150_001), 0..200_000);
        let odd = object((1 << 20) + 7);
        assert_eq!(courses.window(&odd, (1 << 20) + 1, (1 << 20) + 2), (1 << 20)..(1 << 20) + 7);
    }
}
