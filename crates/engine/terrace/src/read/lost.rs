//! Objects that have lost bytes: no replica of an extent is good. Reads, scrubs and openings find them, and note them in a file of the
//! store's directory, so that all processes know: `put` writes such an object again though its file has not changed, and `health` says so.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix_futex_sync::{Mutex, MutexGuard};
use terrace_catalog::Object;
use terrace_system::replace_durably;

const LOST_FILE: &str = "lost";
/// Once the file is this long, no more objects are noted.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Ends a line that takes back an earlier one.
const GOOD_WORD: &str = "good";

/// The objects that have lost bytes, as far as they are known.
pub(crate) struct LostObjects {
    path: PathBuf,
    /// Held while the file is read.
    known: Mutex<LostList>,
}

#[derive(Default)]
struct LostList {
    /// The number and the length of the file when it was read. It is replaced as a whole, or grows.
    file: (u64, u64),
    /// The number and the generation of each object when it was found, by key.
    objects: HashMap<Vec<u8>, (u64, u64)>,
}

impl LostObjects {
    /// The objects of the store in `dir`.
    pub fn of(dir: &Path) -> LostObjects {
        LostObjects { path: dir.join(LOST_FILE), known: Mutex::default() }
    }

    /// Notes that an object has lost bytes.
    pub fn note(&self, key: &[u8], object: &Object) {
        let mut known = self.read();
        let version = (object.id, object.generation);
        if known.file.1 >= MAX_FILE_BYTES || known.objects.insert(key.to_vec(), version) == Some(version) {
            return;
        }
        self.append(&mut known, &line(key, version, ""));
    }

    /// Takes back what is noted of an object: its bytes were found good.
    pub fn forget(&self, key: &[u8], object: &Object) {
        let mut known = self.read();
        let version = (object.id, object.generation);
        if known.objects.get(key) == Some(&version) {
            known.objects.remove(key);
            // Few lines, since each takes back one of the others.
            self.append(&mut known, &line(key, version, GOOD_WORD));
        }
    }

    /// Adds a line to the file. Lines of several processes do not mix: each is one write at the file's end.
    fn append(&self, known: &mut LostList, text: &str) {
        let file = File::options().create(true).append(true).open(&self.path);
        let noted = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            // Not synced: reads may find thousands. A scrub makes what it has found durable.
            file.metadata()
        });
        match noted {
            // Unless others have noted something meanwhile.
            Ok(now) if now.len() == known.file.1 + text.len() as u64 => known.file = (now.ino(), now.len()),
            Ok(_) => {}
            // The next scrub finds it.
            Err(error) => {
                tracing::debug!(file = %self.path.display(), %error, "a note on lost bytes of an object could not be written")
            }
        }
    }

    /// Returns whether an object is known to have lost bytes, and was not written since.
    pub fn has(&self, key: &[u8], object: &Object) -> bool {
        self.read().objects.get(key) == Some(&(object.id, object.generation))
    }

    /// Returns the keys of all that were noted, with the number and the generation that each object had.
    pub fn all(&self) -> Vec<(Vec<u8>, (u64, u64))> {
        self.read().objects.iter().map(|(key, version)| (key.clone(), *version)).collect()
    }

    /// Notes these objects only: a scrub of the whole store has found no others.
    pub fn replace(&self, objects: &[(Vec<u8>, (u64, u64))]) {
        let text: String = objects.iter().map(|(key, version)| line(key, *version, "")).collect();
        let mut known = self.read();
        if text.is_empty() && known.file.1 == 0 {
            return;
        }
        // Durably: `health` would otherwise say after a power cut that all is safe.
        match replace_durably(&self.path, text) {
            Ok(()) => *known = LostList::default(),
            // What stays noted is written again by `put`, or found good by the next scrub.
            Err(error) => tracing::debug!(file = %self.path.display(), %error, "the lost objects could not be noted"),
        }
    }

    /// Makes what is noted durable, for a scrub of a part of the store.
    pub fn sync(&self) {
        // The name, too: the file may be new.
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let synced = [self.path.as_path(), folder].into_iter().try_for_each(|path| File::open(path)?.sync_all());
        if let Err(error) = synced {
            // The next scrub finds the objects again.
            tracing::debug!(file = %self.path.display(), %error, "the notes on lost objects could not be made durable");
        }
    }

    /// Reads what other processes have noted.
    fn read(&self) -> MutexGuard<'_, LostList> {
        let mut known = self.known.lock();
        let file = fs::metadata(&self.path).map_or((0, 0), |metadata| (metadata.ino(), metadata.len()));
        if file != known.file {
            let text = match fs::read_to_string(&self.path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                Err(error) => {
                    tracing::debug!(file = %self.path.display(), %error, "the lost objects could not be read");
                    String::new()
                }
            };
            *known = LostList { file, objects: HashMap::new() };
            for (key, version, is_good) in text.lines().filter_map(parse) {
                match is_good {
                    true if known.objects.get(&key) == Some(&version) => drop(known.objects.remove(&key)),
                    true => {}
                    false => drop(known.objects.insert(key, version)),
                }
            }
        }
        known
    }
}

/// A line of the file: the key in hexadecimal digits, the object's number, and its generation; and a word, if the bytes were found good.
fn line(key: &[u8], (object, generation): (u64, u64), word: &str) -> String {
    let mut line = String::with_capacity(2 * key.len() + 40);
    for byte in key {
        // Writing into a string does not fail.
        let _ = write!(line, "{byte:02x}");
    }
    line + format!(" {object} {generation} {word}").trim_end() + "\n"
}

/// Returns the key, the version, and whether its bytes were found good.
fn parse(line: &str) -> Option<(Vec<u8>, (u64, u64), bool)> {
    let mut parts = line.split(' ');
    let digits = parts.next()?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let key = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let version = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((key, version, parts.next() == Some(GOOD_WORD)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use terrace_catalog::Attributes;

    fn object(id: u64, generation: u64) -> Object {
        Object { id, generation, length: 1, want: 1, attributes: Attributes::default(), extents_in_record: None }
    }

    #[test]
    fn what_one_process_notes_others_know_until_the_object_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (here, there) = (LostObjects::of(dir.path()), LostObjects::of(dir.path()));
        assert!(!there.has(b"a", &object(1, 1)));
        here.note(b"a\n b\xff", &object(1, 7));
        here.note(b"a\n b\xff", &object(1, 7));
        there.note(b"c", &object(2, 1));
        assert!(there.has(b"a\n b\xff", &object(1, 7)) && here.has(b"c", &object(2, 1)));
        assert!(!there.has(b"a\n b\xff", &object(1, 8)) && !there.has(b"a\n b\xff", &object(3, 7)));
        assert_eq!(fs::read_to_string(dir.path().join(LOST_FILE)).unwrap().lines().count(), 2);
        here.replace(&[(b"c".to_vec(), (2, 1))]);
        assert!(!there.has(b"a\n b\xff", &object(1, 7)) && there.has(b"c", &object(2, 1)));
        there.note(b"d", &object(4, 2));
        there.forget(b"c", &object(2, 0));
        there.forget(b"c", &object(2, 1));
        assert_eq!(here.all(), [(b"d".to_vec(), (4, 2))], "the older version says nothing");
        here.note(b"c", &object(2, 1));
        assert!(there.has(b"c", &object(2, 1)));
        here.replace(&[]);
        assert!(there.all().is_empty());
    }

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_can_be() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LOST_FILE), "zz 1 1\n61 1\n61 x 1\n6\n\n62 5 6\n62 5 6 x\n63 7").unwrap();
        assert_eq!(LostObjects::of(dir.path()).all(), [(b"b".to_vec(), (5, 6))]);
    }
}
