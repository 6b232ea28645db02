//! How often ranges of objects are read. Each process counts its reads in memory, and adds them to a file of the store about
//! once a second. A read itself writes nothing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix_futex_sync::Mutex;
use serde::{Deserialize, Serialize};
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_plan::hotness::{Ranges, Span, reads_to_come, spans};
use terrace_system::Locked;
use terrace_system::replace;
use xxhash_rust::xxh3::xxh3_64;

/// The number of ranges with a score.
const MAX_SCORED_RANGES: usize = 1 << 14;
/// The time in seconds after which a score is halved.
const HALF_LIFE_SECONDS: f64 = 3600.0;
/// A block with this score gets separate scores for its parts.
const HOT_SCORE: f64 = 4.0;
/// The number of objects whose keys are kept.
const MAX_NAMES: usize = 4096;
/// The number of reads that are kept between two updates of the file. Other processes do not see the reads beyond it.
const MAX_TOUCHES: usize = 8192;
const FOLD_INTERVAL: Duration = Duration::from_secs(1);
/// An object that was not read for this number of seconds counts as cold, and its key is dropped.
const FORGET_AFTER_SECONDS: f64 = 12.0 * HALF_LIFE_SECONDS;
/// Ranges with a lower score are dropped.
pub const COLD_SCORE: f64 = 1.0 / 64.0;

/// The scores of ranges, as far as this process knows them.
pub(crate) struct Hotness {
    /// Held for a lookup or a change, and once in a `FOLD_INTERVAL` while the file is read and replaced, for which reads then wait. No other lock
    /// is waited for under it.
    state: Mutex<State>,
    file: PathBuf,
}

struct State {
    ranges: Ranges,
    names: HashMap<u64, Name>,
    /// The reads since the last update of the file.
    touches: Vec<Touch>,
    folded: Instant,
}

/// An object's key, and the time of its last read.
#[derive(Clone, Serialize, Deserialize)]
struct Name {
    #[serde(with = "serde_bytes")]
    key: Vec<u8>,
    at: f64,
}

struct Touch {
    object: u64,
    offset: u64,
    length: u64,
    at: f64,
}

/// The state that processes share.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    at: f64,
    scores: Vec<(u64, f32)>,
    names: Vec<Name>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn empty() -> Ranges {
    Ranges::new(MAX_SCORED_RANGES, HALF_LIFE_SECONDS, u64::from(MAX_EXTENT_BYTES), HOT_SCORE)
}

impl Hotness {
    /// Reads the scores of the store in `dir`.
    pub fn new(dir: &Path) -> Hotness {
        let file = dir.join("hotness");
        let mut state = State { ranges: empty(), names: HashMap::new(), touches: Vec::new(), folded: Instant::now() };
        state.take(read(&file));
        Hotness { state: Mutex::new(state), file }
    }

    /// Notes a read of bytes of an object.
    pub fn touch(&self, key: &[u8], offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let (object, at) = (xxh3_64(key), now());
        let state = &mut *self.state.lock();
        state.ranges.touch(object, offset, length, at);
        let (names, touches) = (state.names.len(), state.touches.len());
        match state.names.get_mut(&object) {
            Some(name) => name.at = at,
            None if names < 2 * MAX_NAMES => drop(state.names.insert(object, Name { key: key.to_vec(), at })),
            None => {}
        }
        match state.touches.last_mut() {
            Some(last) if last.object == object && last.offset + last.length == offset => last.length += length,
            _ if touches < MAX_TOUCHES => state.touches.push(Touch { object, offset, length, at }),
            _ => {}
        }
        if touches == MAX_TOUCHES && state.folded.elapsed() > FOLD_INTERVAL {
            state.fold(&self.file);
        }
    }

    /// Returns how often the block with this byte of an object is expected to be read in the next hour.
    pub fn reads(&self, key: &[u8], offset: u64, length: u64) -> f64 {
        reads_to_come(self.score(key, offset, length))
    }

    /// Returns the score of the block with this byte of an object of `length` bytes: the bytes that were read, divided by
    /// the length of the block.
    pub fn score(&self, key: &[u8], offset: u64, length: u64) -> f64 {
        let state = self.state.lock();
        let score = state.ranges.scores().score(state.ranges.key(xxh3_64(key), offset), now());
        let block = state.ranges.block();
        score * block as f64 / length.saturating_sub(offset / block * block).clamp(1, block) as f64
    }

    /// Returns the keys of objects that are read, as far as they are known.
    pub fn objects(&self) -> Vec<Vec<u8>> {
        self.state.lock().names.values().map(|name| name.key.clone()).collect()
    }

    /// Returns ranges of similar hotness in an object of `length` bytes, hottest first.
    pub fn spans(&self, key: &[u8], length: u64) -> Vec<Span> {
        spans(self.state.lock().ranges.of(xxh3_64(key), length, now()))
    }

    /// Updates the file that processes share, and reads what others have added, if the last update was long enough ago.
    pub fn fold_in_time(&self) {
        let mut state = self.state.lock();
        if state.folded.elapsed() > FOLD_INTERVAL {
            state.fold(&self.file);
        }
    }

    /// Updates the file now.
    pub fn fold(&self) {
        self.state.lock().fold(&self.file);
    }
}

impl State {
    fn fold(&mut self, file: &Path) {
        self.folded = Instant::now();
        if self.touches.is_empty() {
            return self.take(read(file));
        }
        // Scores only help to plan. If the file cannot be written, the reads are kept for the next time.
        let lock = File::options().create(true).truncate(false).write(true).open(file.with_extension("lock"));
        let Ok(Some(_lock)) = lock.and_then(Locked::at_once) else { return };
        let mine = std::mem::take(&mut self.names);
        self.take(read(file));
        self.names.extend(mine);
        for Touch { object, offset, length, at } in self.touches.drain(..) {
            self.ranges.touch(object, offset, length, at);
        }
        // After an error, the file lacks these reads, and later plans know older ones only.
        let _ = replace(file, postcard::to_stdvec(&self.kept()).unwrap_or_default());
    }

    /// Replaces the scores by those of the file.
    fn take(&mut self, kept: Kept) {
        self.ranges = empty();
        self.ranges.restore(kept.scores.iter().map(|(key, score)| (*key, f64::from(*score))), kept.at);
        self.names.extend(kept.names.into_iter().map(|name| (xxh3_64(&name.key), name)));
    }

    fn kept(&mut self) -> Kept {
        let at = now();
        let scores = self.ranges.scores().scores(at).filter(|(_, score)| *score > COLD_SCORE);
        let scores = scores.map(|(key, score)| (key, score as f32)).collect();
        let mut names: Vec<Name> = self.names.drain().map(|(_, name)| name).collect();
        names.retain(|name| at - name.at < FORGET_AFTER_SECONDS);
        names.sort_by(|a, b| b.at.total_cmp(&a.at));
        names.truncate(MAX_NAMES);
        self.names = names.iter().cloned().map(|name| (xxh3_64(&name.key), name)).collect();
        Kept { at, scores, names }
    }
}

fn read(file: &Path) -> Kept {
    fs::read(file).ok().and_then(|bytes| postcard::from_bytes(&bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB_BYTES: u64 = 1 << 20;

    #[test]
    fn what_one_process_reads_another_knows_after_a_fold() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, two) = (Hotness::new(dir.path()), Hotness::new(dir.path()));
        for _ in 0..3 {
            one.touch(b"a", 0, MIB_BYTES);
            two.touch(b"a", 0, MIB_BYTES / 2);
            two.touch(b"b", 5 * MIB_BYTES, MIB_BYTES);
        }
        one.fold();
        two.fold();
        one.fold();
        for hotness in [&one, &two, &Hotness::new(dir.path())] {
            assert!((hotness.score(b"a", 0, MIB_BYTES) - 4.5).abs() < 0.01, "{}", hotness.score(b"a", 0, MIB_BYTES));
            assert!((hotness.score(b"a", 0, MIB_BYTES / 2) - 9.0).abs() < 0.02);
            assert!((hotness.score(b"b", 5 * MIB_BYTES, 6 * MIB_BYTES) - 3.0).abs() < 0.01);
            assert_eq!(hotness.score(b"b", 0, 6 * MIB_BYTES), 0.0);
            let mut objects = hotness.objects();
            objects.sort();
            assert_eq!(objects, [b"a", b"b"]);
        }
    }

    #[test]
    fn a_file_that_is_damaged_is_as_good_as_none() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("hotness"), b"\xff\xff\xff\xff\xff").expect("writes");
        let hotness = Hotness::new(dir.path());
        hotness.touch(b"a", 0, MIB_BYTES);
        hotness.fold();
        assert!(Hotness::new(dir.path()).score(b"a", 0, MIB_BYTES) > 0.9);
    }
}
