//! Keys of the catalog's records: a letter, then big-endian numbers, so that LMDB's byte order is the order of the numbers.

use terrace_format::Place;
use terrace_format::{TargetId, Task};

pub const OBJECT_LETTER: u8 = b'k';
pub const EXTENTS_LETTER: u8 = b'e';
pub const OWED_LETTER: u8 = b'w';
pub const FREED_LETTER: u8 = b'f';
pub const SEGMENT_LETTER: u8 = b's';
pub const STAGED_LETTER: u8 = b'p';
pub const LEASE_LETTER: u8 = b'l';
pub const PLAIN_LETTER: u8 = b'h';
pub const UNFOLLOWED_LETTER: u8 = b't';
pub const EXPIRY_TIME: u8 = b'x';
pub const SHARED_LETTER: u8 = b'r';
pub const SESSION_LETTER: u8 = b'c';
pub const INCARNATION_LETTER: u8 = b'i';
pub const SERVED_LETTER: u8 = b'g';
pub const PIECE_LETTER: u8 = b'y';
pub const RETIRED_LETTER: u8 = b'z';
pub const OWED_COUNT_LETTER: u8 = b'n';

/// The log's tail.
pub const TAIL_KEY: &[u8] = b"mt";
/// The last commit that a sync mark covers.
pub const SYNCED_KEY: &[u8] = b"ms";
/// How far a shared log has been carried out.
pub const FOLLOWED_KEY: &[u8] = b"mf";
/// The number of incarnations that have joined.
pub const JOINED_KEY: &[u8] = b"mj";
/// The last commit whose freed places may be given back, by a shared log.
pub const FLOOR_KEY: &[u8] = b"mp";
/// The next number of [`terrace_format::Ids`].
pub const NEXT_ID: &[u8] = b"mi";
/// The lowest number of a segment that may be appended to.
pub const OLDEST_SEGMENT_KEY: &[u8] = b"mo";

/// The number of users' objects.
pub const OBJECT_COUNT_KEY: &[u8] = b"mk";

/// A record key on the stack; the longest is an object's.
pub type Key = smallvec::SmallVec<[u8; 64]>;

fn with(letter: u8) -> Key {
    let mut key = Key::new();
    key.push(letter);
    key
}

pub fn object(key: &[u8]) -> Key {
    let mut out = with(OBJECT_LETTER);
    out.extend_from_slice(key);
    out
}

pub fn extents(object: u64, offset: u64) -> Key {
    let mut out = with(EXTENTS_LETTER);
    out.extend_from_slice(&object.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out
}

pub fn owed(task: &Task) -> Key {
    let mut out = with(OWED_LETTER);
    out.extend_from_slice(&task.object.to_be_bytes());
    out.extend_from_slice(&task.frame_offset.to_be_bytes());
    out.extend_from_slice(&task.write.to_be_bytes());
    out.extend_from_slice(&task.target.to_be_bytes());
    out
}

/// The task in the key of an owed replica's record.
pub fn task(key: &[u8]) -> Option<Task> {
    Some(Task {
        object: number(key, 1)?,
        frame_offset: number(key, 9)?,
        write: number(key, 17)?,
        target: u16::from_be_bytes(key.get(25..27)?.try_into().ok()?),
    })
}

/// A shared frame: the object and the offset under which it was written, and its write.
pub fn shared(name: &Task) -> Key {
    let mut out = with(SHARED_LETTER);
    out.extend_from_slice(&name.object.to_be_bytes());
    out.extend_from_slice(&name.frame_offset.to_be_bytes());
    out.extend_from_slice(&name.write.to_be_bytes());
    out
}

/// The frame in the key of a shared frame's record, as a task of no target.
pub fn shared_name(key: &[u8]) -> Option<Task> {
    Some(Task { object: number(key, 1)?, frame_offset: number(key, 9)?, write: number(key, 17)?, target: 0 })
}

/// A session, and the prefix of the keys of its outcomes.
pub fn session(session: u64) -> Key {
    let mut out = with(SESSION_LETTER);
    out.extend_from_slice(&session.to_be_bytes());
    out
}

/// The outcome of a change of a session.
pub fn outcome(session_number: u64, number: u64) -> Key {
    let mut out = session(session_number);
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// The prefix of the pieces of a session's changes.
pub fn pieces(session: u64) -> Key {
    let mut out = with(PIECE_LETTER);
    out.extend_from_slice(&session.to_be_bytes());
    out
}

/// A piece of a change that does not fit into a record.
pub fn piece(session: u64, number: u64, piece: u32) -> Key {
    let mut out = pieces(session);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&piece.to_be_bytes());
    out
}

/// A target that a node serves.
pub fn served(target: TargetId) -> Key {
    let mut out = with(SERVED_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out
}

/// A target that was taken out of the store.
pub fn retired(target: TargetId) -> Key {
    let mut out = with(RETIRED_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out
}

/// How many replicas a target owes.
pub fn owed_count(target: TargetId) -> Key {
    let mut out = with(OWED_COUNT_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out
}

/// The target in the key of a number of owed replicas.
pub fn owed_count_target(key: &[u8]) -> Option<TargetId> {
    Some(TargetId::from_be_bytes(key.get(1..3)?.try_into().ok()?))
}

/// An incarnation that may append records.
pub fn incarnation(incarnation: u64) -> Key {
    let mut out = with(INCARNATION_LETTER);
    out.extend_from_slice(&incarnation.to_be_bytes());
    out
}

/// The prefix of the keys of all dead places on `target`.
pub fn freed_on(target: TargetId) -> Key {
    let mut out = with(FREED_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out
}

/// The key of a place that commit `sequence` freed on `target`. Segment and offset make it unique.
pub fn freed(target: TargetId, sequence: u64, segment: u64, offset: u64) -> Key {
    let mut out = freed_on(target);
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out
}

/// The commit and the place in the key of a dead place. The length is in the record's value.
pub fn freed_place(key: &[u8]) -> Option<(u64, Place)> {
    Some((number(key, 3)?, Place { segment: number(key, 11)?, offset: number(key, 19)?, length: 0 }))
}

/// The prefix of the segments of `target`.
pub fn segments_on(target: TargetId) -> Key {
    let mut out = with(SEGMENT_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out
}

pub fn segment(target: TargetId, segment: u64) -> Key {
    let mut out = segments_on(target);
    out.extend_from_slice(&segment.to_be_bytes());
    out
}

pub fn staged(object: u64) -> Key {
    let mut out = with(STAGED_LETTER);
    out.extend_from_slice(&object.to_be_bytes());
    out
}

/// A lease, by its holder's number and its own.
pub fn lease((holder, id): (u64, u64)) -> Key {
    let mut out = with(LEASE_LETTER);
    out.extend_from_slice(&holder.to_be_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    out
}

/// The newest plain file of an object on `target`.
pub fn plain(object: u64, target: TargetId) -> Key {
    let mut out = with(PLAIN_LETTER);
    out.extend_from_slice(&object.to_be_bytes());
    out.extend_from_slice(&target.to_be_bytes());
    out
}

/// The plain files on `target` that may wrongly have the name of this key.
pub fn unfollowed(target: TargetId, key: &[u8]) -> Key {
    let mut out = with(UNFOLLOWED_LETTER);
    out.extend_from_slice(&target.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// An object of this key that expires at `time`, in nanoseconds since 1970.
pub fn expiry(time: u64, key: &[u8]) -> Key {
    let mut out = with(EXPIRY_TIME);
    out.extend_from_slice(&time.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// The big-endian number at `at`.
pub fn number(key: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the records are a part of the format, which `docs/format.md` describes.
    #[test]
    fn the_page_on_the_format_has_each_kind_of_record() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md"));
        for letter in [
            OBJECT_LETTER,
            EXTENTS_LETTER,
            OWED_LETTER,
            FREED_LETTER,
            SEGMENT_LETTER,
            STAGED_LETTER,
            LEASE_LETTER,
            PLAIN_LETTER,
            UNFOLLOWED_LETTER,
            EXPIRY_TIME,
            SHARED_LETTER,
            SESSION_LETTER,
            INCARNATION_LETTER,
            SERVED_LETTER,
            PIECE_LETTER,
            RETIRED_LETTER,
            OWED_COUNT_LETTER,
        ] {
            let row = format!("\n| `{}` | ", char::from(letter));
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
        for key in
            [TAIL_KEY, SYNCED_KEY, FOLLOWED_KEY, JOINED_KEY, FLOOR_KEY, NEXT_ID, OLDEST_SEGMENT_KEY, OBJECT_COUNT_KEY]
        {
            let row = format!("\n| `{}` | | ", String::from_utf8_lossy(key));
            assert_eq!(page.matches(&row).count(), 1, "{row}");
        }
        let task = Task { object: 1, frame_offset: 2, write: 3, target: 4 };
        assert_eq!(owed(&task).as_slice(), b"w\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x04");
        assert_eq!(freed(1, 2, 3, 4).as_slice(), b"f\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04");
        assert_eq!(segment(1, 2).as_slice(), b"s\0\x01\0\0\0\0\0\0\0\x02");
    }
}
