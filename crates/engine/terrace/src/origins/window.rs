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
/// The bytes that are fetched ahead of a reader are divided at multiples of this.
pub const PIECE_BYTES: u64 = 4 << 20;
/// The end of what is fetched ahead is at most this far from the reader.
pub const MAX_AHEAD_BYTES: u64 = 16 << 20;
/// Nothing is fetched ahead before this number of bytes, and of reads, was read in order.
const MIN_BYTES_IN_ORDER: u64 = 1 << 20;
const MIN_READS_IN_ORDER: u32 = 4;
/// The kernel may split one long read into requests that arrive out of order. A read still counts as in order if its offset differs by
/// at most this number of its lengths, and of bytes.
const SLACK_READS: u64 = 4;
const MAX_SLACK_BYTES: u64 = 512 << 10;
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
    reads: Reads,
}

/// The reads of an object, whether their bytes were here or not.
#[derive(Clone, Copy, Default)]
struct Reads {
    /// The offset at which the next read in order begins.
    next: u64,
    /// The number of reads in order, and of their bytes.
    count: u32,
    bytes: u64,
    /// The end of what is fetched ahead.
    asked: u64,
}

impl Courses {
    /// Returns the range to fetch for a read of `start..end` whose first byte is not here. It begins at or before `start`.
    pub fn window(&mut self, object: &Object, start: u64, end: u64) -> Range<u64> {
        if object.length <= MAX_WHOLE_BYTES {
            return 0..object.length;
        }
        let course = self.course_of(object.id);
        let first = start / UNIT_BYTES * UNIT_BYTES;
        let end = end.min(first + MAX_WINDOW_BYTES);
        let least = end.next_multiple_of(UNIT_BYTES);
        let mut stop = least;
        let is_in_order = course.run > 0 && (course.next.saturating_sub(UNIT_BYTES)..=course.next).contains(&start);
        if is_in_order {
            let ahead = first + course.run.min(MAX_WINDOW_BYTES);
            let ahead = if course.run >= EXTENT_BYTES { ahead / EXTENT_BYTES * EXTENT_BYTES } else { ahead };
            stop = stop.max(ahead);
        }
        let asked = course.reads.next.saturating_sub(MAX_SLACK_BYTES)..course.reads.asked;
        if asked.contains(&start) {
            // It is being fetched. Only the piece with these bytes is waited for.
            stop = ((start / PIECE_BYTES + 1) * PIECE_BYTES).min(asked.end).max(least);
        }
        let stop = stop.min(object.length);
        let run = if is_in_order { course.run } else { 0 };
        *course = Course { next: stop, run: run + (stop - first), reads: course.reads };
        first..stop
    }

    /// Notes a read of `start..end`. Returns the range that should be fetched ahead now, if any.
    pub fn next_ahead(&mut self, object: &Object, start: u64, end: u64) -> Option<Range<u64>> {
        let end = end.min(object.length);
        if object.length <= MAX_WHOLE_BYTES || start >= end {
            return None;
        }
        let course = self.course_of(object.id);
        let (fetched, reads) = (course.next, &mut course.reads);
        let length = end - start;
        if reads.next.abs_diff(start) > length.saturating_mul(SLACK_READS).min(MAX_SLACK_BYTES) {
            *reads = Reads { next: end, count: 1, bytes: 0, asked: 0 };
            return None;
        }
        // The same bytes again do not count.
        reads.bytes = reads.bytes.saturating_add(end.saturating_sub(reads.next).min(length));
        reads.count = reads.count.saturating_add(1);
        reads.next = reads.next.max(end);
        if reads.count < MIN_READS_IN_ORDER || reads.bytes < MIN_BYTES_IN_ORDER {
            return None;
        }
        let window = reads.bytes.min(MAX_AHEAD_BYTES);
        let mut from = reads.asked.max(reads.next);
        if (from..reads.next + MAX_WINDOW_BYTES).contains(&fetched) {
            from = fetched;
        }
        let to = (reads.next + window).min(object.length);
        let to = if to < object.length { to / EXTENT_BYTES * EXTENT_BYTES } else { to };
        if from >= to || from - reads.next > window / 2 {
            return None;
        }
        reads.asked = to;
        Some(from..to)
    }

    fn course_of(&mut self, object: u64) -> &mut Course {
        if self.0.len() >= MAX_REMEMBERED_OBJECTS && !self.0.contains_key(&object) {
            self.0.clear();
        }
        self.0.entry(object).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(length: u64) -> Object {
        Object { id: 1, generation: 1, length, want: 1, attributes: Default::default(), extents_in_record: None }
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

    #[test]
    fn what_is_read_in_order_is_fetched_ahead_once_and_within_the_bound() {
        for length in [4096, 100_000, 1 << 20, 8 << 20] {
            let (mut courses, long) = (Courses::default(), object(100 << 20));
            let (mut at, mut asked) = (0, 0);
            while at < long.length {
                if let Some(range) = courses.next_ahead(&long, at, at + length) {
                    assert!(range.start >= asked && range.end > range.start, "{range:?} after {asked}");
                    assert!(range.end <= (at + length + MAX_AHEAD_BYTES).min(long.length), "{range:?} at {at}");
                    asked = range.end;
                }
                at += length;
            }
            assert_eq!(asked, long.length, "reads of {length} bytes");
        }
        // Threads may take the requests of a long read in another order.
        let (mut courses, long) = (Courses::default(), object(100 << 20));
        let mut swapped = (0..32u64).map(|at| at ^ 1);
        assert!(swapped.any(|at| courses.next_ahead(&long, at << 17, (at + 1) << 17).is_some()));
        // Here and there is no order.
        let mut random = terrace_testkit::Random::new(1);
        for length in [1000, 64 << 10, 1 << 20] {
            for _ in 0..1000 {
                let at = random.below((100 << 20) - length);
                assert_eq!(courses.next_ahead(&long, at, at + length), None);
            }
        }
    }
}
