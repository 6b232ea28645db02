//! Questions about plain files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use terrace_format::frame::{self, Identity, Scratch};

use super::frames::{assert_missing, bytes, read, scan};
use super::{Question, Trial};
use crate::plain::BYTES_FOLDER;
use crate::{Adoption, FILES_FOLDER, PLAIN_SEGMENT_BIT, Place, Whole};

pub(super) const FILE_QUESTIONS: [Question; 2] =
    [plain_files_are_frames_and_files_at_once, adopted_files_are_only_read];

const FRAME_LENGTHS: [usize; 4] = [70_000, 1, 1 << 20, 5000];

fn plain_files_are_frames_and_files_at_once(trial: &Trial<'_>) {
    let target = &*trial.open();
    let Some(files) = target.files() else { return };
    let root = trial.settings.path.join(FILES_FOLDER);
    let file = PLAIN_SEGMENT_BIT | 7;
    let mut whole = Vec::new();
    let places: Vec<Place> = (1..)
        .zip(FRAME_LENGTHS)
        .map(|(write, length)| {
            let raw = bytes(write, length);
            let identity = Identity { object: 5, write, offset: whole.len() as u64, replica: 0 };
            whole.extend_from_slice(&raw);
            let mut scratch = Scratch::default();
            let encoding = "none".parse().expect("an encoding");
            let frame = frame::encode(identity, encoding, &raw, &mut scratch).expect("encodes");
            files.write_frame(file, &frame).expect("writes")
        })
        .collect();
    for (write, (place, length)) in (1..).zip(places.iter().zip(FRAME_LENGTHS)) {
        for (start, end) in [(0, length), (length / 3, length), (length / 3, length / 2)] {
            let part = read(target, *place, write, start, end - start).expect("reads");
            assert!(part == bytes(write, length)[start..end]);
        }
    }
    assert_eq!(scan(target), (1..).zip(places.iter().copied()).collect());
    target.sync(&[file]).expect("syncs");
    let named = Whole { file, length: whole.len() as u64 + 10, mode: 0o640, mtime: 7 };
    assert!(files.set_name(b"a/b", Some(&named), &[]).expect("names"));
    let shorter = Whole { length: named.length - 1, ..named };
    assert!(!files.set_name(b"a/b", Some(&shorter), &[]).expect("leaves a longer file"));
    let is_named = |key: &[u8], whole| files.is_named(key, whole).expect("looks");
    assert!(is_named(b"a/b", &named) && !is_named(b"a", &named) && !is_named(b"a/b", &shorter));
    whole.extend([0; 10]);
    assert!(fs::read(root.join("a/b")).expect("a file") == whole);
    fs::write(root.join("other"), b"put there by someone").expect("writes");
    assert_eq!(files.names().expect("lists"), [(b"a/b".to_vec(), file)]);
    files.set_name(b"a/b", None, &[PLAIN_SEGMENT_BIT | 8]).expect("leaves a file that is not one of these");
    assert!(root.join("a/b").exists());
    files.set_name(b"a/b", None, &[file]).expect("unnames");
    assert!(!root.join("a").exists() && read(target, places[0], 1, 0, 9).is_ok());
    // A power cut in the middle of naming may leave the name, and the second name that was to become it, without the number.
    files.set_name(b"c", Some(&named), &[]).expect("names");
    let by_number = trial.settings.path.join(BYTES_FOLDER).join(format!("{file:016x}"));
    fs::hard_link(&by_number, by_number.with_extension("name")).expect("links");
    fs::rename(&by_number, root.join("kept")).expect("renames");
    assert_eq!((files.numbers().expect("lists"), scan(target)), (vec![file], BTreeSet::new()));
    assert_eq!(
        BTreeSet::from_iter(files.names().expect("lists")),
        BTreeSet::from([(b"c".to_vec(), file), (b"kept".to_vec(), file)])
    );
    files.set_name(b"c", None, &[file]).expect("unnames");
    assert!(!root.join("c").exists());
    fs::rename(root.join("kept"), &by_number).expect("renames");
    assert_eq!(files.numbers().expect("lists"), [file]);
    assert!(target.allocated(file) > 0 && target.discard(file).expect("discards"));
    assert_missing(target, places[0]);
    assert_eq!((files.numbers().expect("lists"), scan(target)), (Vec::new(), BTreeSet::new()));
}

fn adopted_files_are_only_read(trial: &Trial<'_>) {
    let target = &*trial.open();
    let Some(files) = target.files() else { return };
    let owned = trial.settings.path.join("owned");
    let seen = || {
        let metadata = fs::metadata(&owned).expect("the owner's file");
        let time = (metadata.mtime(), metadata.mtime_nsec());
        (metadata.ino(), metadata.mode(), time, fs::read(&owned).expect("its bytes"))
    };
    fs::write(&owned, bytes(1, 70_000)).expect("writes");
    let before = seen();
    let file = PLAIN_SEGMENT_BIT | 9;
    let how = files.adopt(file, &File::open(&owned).expect("opens")).expect("adopts").expect("on its own file system");
    assert_eq!(files.is_linked(file), how == Adoption::Linked);
    let mut scratch = Scratch::default();
    let identity = Identity { object: 5, write: 1, offset: 0, replica: 0 };
    let encoding = "none".parse().expect("an encoding");
    let frame = frame::encode(identity, encoding, &before.3, &mut scratch).expect("encodes");
    let place = files.describe_frame(file, &frame).expect("describes");
    assert!(read(target, place, 1, 100, 900).expect("reads") == before.3[100..1000]);
    assert_eq!((scan(target), files.numbers().expect("lists")), (BTreeSet::from([(1, place)]), vec![file]));
    target.sync(&[file]).expect("syncs");
    let named = Whole { file, length: 80_000, mode: 0o600, mtime: 7 };
    assert!(files.set_name(b"key", Some(&named), &[]).expect("names"));
    assert!(files.is_named(b"key", &named).expect("looks"));
    assert_eq!(trial.settings.path.join(FILES_FOLDER).join("key").exists(), how == Adoption::Cloned);
    target.free(&[place]).expect("frees");
    files.set_name(b"key", None, &[file]).expect("unnames");
    assert!(target.discard(file).expect("discards"));
    assert_missing(target, place);
    assert!(seen() == before && fs::metadata(&owned).expect("the file").nlink() == 1);
    fs::remove_file(owned).expect("the owner removes it");
}
