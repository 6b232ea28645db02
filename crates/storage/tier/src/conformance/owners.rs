//! Questions about the stores that targets belong to, and about processes that come and go.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::frames::{append, assert_missing, bytes, read, scan};
use super::{Question, STORE_ID, Trial};
use crate::{Capabilities, MARKER_FILE, TargetFound, TargetOwner};

pub(super) const OWNER_QUESTIONS: [Question; 9] = [
    capabilities_agree_with_each_other,
    frames_outlive_the_process_unless_they_end_with_it,
    processes_read_each_others_frames_unless_these_end_with_a_process,
    an_open_segment_is_not_discarded,
    a_new_target_is_new_until_the_store_has_seen_it,
    a_place_belongs_to_one_target_unless_it_ends_with_the_process,
    two_copies_of_a_store_are_kept_apart_in_directories,
    a_removed_target_leaves_a_free_place,
    a_target_that_vanished_is_unavailable_and_not_empty,
];

const FRAME_BYTES: usize = 5000;

fn capabilities_agree_with_each_other(trial: &Trial<'_>) {
    let Capabilities { ends_with_process, remote, local_path, log_copies, plain_files, .. } = trial.capabilities;
    assert!(!(remote && local_path), "a local path needs no network");
    assert!(local_path || !log_copies && !plain_files, "files need a local path");
    assert!(!ends_with_process || !log_copies, "a copy of the log must outlive the process");
    let target = trial.open();
    assert_eq!(target.files().is_some(), plain_files);
    target.check_again().expect("the target is there");
    if log_copies {
        let mark = fs::read_to_string(trial.settings.path.join(MARKER_FILE)).expect("a marker");
        assert_eq!(mark, trial.owner().mark());
    }
}

fn frames_outlive_the_process_unless_they_end_with_it(trial: &Trial<'_>) {
    let first = trial.open_bare();
    let place = append(&*first, 1, FRAME_BYTES).expect("appends");
    first.sync(&[place.segment]).expect("syncs");
    drop(first);
    let second = &*trial.open();
    let used = second.space().expect("space").used;
    if trial.capabilities.ends_with_process {
        assert_eq!((scan(second), used), (BTreeSet::new(), 0));
        assert_missing(second, place);
    } else {
        assert_eq!(scan(second), BTreeSet::from([(1, place)]));
        assert!(read(second, place, 1, 0, FRAME_BYTES).expect("reads") == bytes(1, FRAME_BYTES));
        assert!(used >= FRAME_BYTES as u64, "{used} bytes are used");
        let other = append(second, 2, FRAME_BYTES).expect("appends");
        assert_eq!(scan(second), BTreeSet::from([(1, place), (2, other)]));
    }
}

/// A frame is there for all processes when `append` returns.
fn processes_read_each_others_frames_unless_these_end_with_a_process(trial: &Trial<'_>) {
    let (first, second) = (&*trial.open(), &*trial.open());
    let old = append(first, 1, FRAME_BYTES).expect("appends");
    let new = append(second, 2, FRAME_BYTES).expect("appends");
    assert_ne!(old, new);
    for (target, write, place) in [(first, 2, new), (second, 1, old)] {
        if trial.capabilities.ends_with_process {
            assert_missing(target, place);
        } else {
            assert!(read(target, place, write, 0, FRAME_BYTES).expect("reads") == bytes(write, FRAME_BYTES));
            assert_eq!(scan(target), BTreeSet::from([(1, old), (2, new)]));
        }
    }
}

fn an_open_segment_is_not_discarded(trial: &Trial<'_>) {
    let first = trial.open_bare();
    let place = append(&*first, 1, FRAME_BYTES).expect("appends");
    if !trial.capabilities.open_segments {
        assert!(first.discard(place.segment).expect("discards"), "each frame is a segment of its own");
        assert_missing(&*first, place);
        assert_eq!(scan(&*first), BTreeSet::new());
        return;
    }
    let second = &*trial.open();
    assert!(!first.discard(place.segment).expect("looks"), "it is open here");
    assert!(!second.discard(place.segment).expect("looks"), "its writer has it open");
    assert!(read(second, place, 1, 0, FRAME_BYTES).expect("reads") == bytes(1, FRAME_BYTES));
    drop(first);
    assert!(second.discard(place.segment).expect("discards"), "nobody has it open");
    assert_missing(second, place);
    assert_eq!(scan(second), BTreeSet::new());
}

/// The process that made the target may die before the store knows what was lost.
fn a_new_target_is_new_until_the_store_has_seen_it(trial: &Trial<'_>) {
    assert!(trial.open().is_new());
    let target = trial.open();
    assert!(target.is_new(), "no store has seen it");
    target.forget_new().expect("forgets");
    target.forget_new().expect("forgetting twice does no harm");
    assert!(!target.is_new());
    drop(target);
    assert_eq!(trial.open().is_new(), trial.capabilities.ends_with_process);
}

fn a_place_belongs_to_one_target_unless_it_ends_with_the_process(trial: &Trial<'_>) {
    let (kind, settings, owner) = (trial.kind, &trial.settings, trial.owner());
    kind.probe(settings).expect("the place is free");
    assert_eq!(kind.find(settings, &owner).expect("looks"), TargetFound::Nothing);
    append(&*trial.open(), 1, FRAME_BYTES).expect("appends");
    let others = [trial.owner_of(STORE_ID + 1, 1), trial.owner_of(STORE_ID, 2)];
    if trial.capabilities.ends_with_process {
        kind.probe(settings).expect("the place is free");
        assert_eq!(kind.find(settings, &owner).expect("looks"), TargetFound::Nothing);
        for other in others {
            assert_eq!(scan(&*kind.open(settings, &other).expect("opens").target), BTreeSet::new());
        }
        return;
    }
    assert_eq!(kind.probe(settings).expect_err("a target is here").kind(), io::ErrorKind::AlreadyExists);
    let found = kind.find(settings, &owner).expect("looks");
    assert!(matches!(found, TargetFound::Own { used } if used >= FRAME_BYTES as u64), "{found:?}");
    for other in others {
        assert_eq!(kind.find(settings, &other).expect("looks"), TargetFound::Another(owner.mark()));
        let refused = kind.open(settings, &other).err().expect("another target is here");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{refused}");
        // The other store's target was here before: its store can be used without it.
        other.note_made().expect("notes");
        let set_aside = kind.open(settings, &other).expect("it may come back").trouble.expect("another target is here");
        assert_eq!(set_aside.kind(), io::ErrorKind::AlreadyExists, "{set_aside}");
    }
    assert_eq!(scan(&*trial.open()).len(), 1, "the owner's target is as it was");
}

/// A copy of the store's directory names the same target and the same segments.
fn two_copies_of_a_store_are_kept_apart_in_directories(trial: &Trial<'_>) {
    if !trial.capabilities.log_copies {
        return;
    }
    let (kind, settings) = (trial.kind, &trial.settings);
    let copy = TargetOwner { dir: trial.stores.join("copy"), ..trial.owner() };
    fs::create_dir(&copy.dir).expect("the site's folder can be written");
    let is_refused = |owner| kind.open(settings, owner).err().map(|e| e.kind()) == Some(io::ErrorKind::ResourceBusy);
    let [first, second] = [trial.open_bare(), trial.open_bare()];
    let place = append(&*first, 1, FRAME_BYTES).expect("appends");
    drop(second);
    assert!(is_refused(&copy));
    let refused = [kind.find(settings, &copy).map(drop), kind.remove(settings, &copy).map(drop)];
    for refused in refused {
        assert_eq!(refused.expect_err("the first has it open").kind(), io::ErrorKind::ResourceBusy);
    }
    assert!(read(&*first, place, 1, 0, FRAME_BYTES).expect("reads") == bytes(1, FRAME_BYTES));
    drop(first);
    let opened = kind.open(settings, &copy).expect("nobody else has it open");
    assert!(opened.trouble.is_none() && is_refused(&trial.owner()));
    drop(opened);
    trial.open_bare();
}

fn a_removed_target_leaves_a_free_place(trial: &Trial<'_>) {
    let (kind, settings, owner) = (trial.kind, &trial.settings, trial.owner());
    let target = trial.open_bare();
    append(&*target, 1, FRAME_BYTES).expect("appends");
    target.forget_new().expect("forgets");
    drop(target);
    assert_eq!(owner.was_made(), !trial.capabilities.ends_with_process);
    for _ in 0..2 {
        assert_eq!(kind.remove(settings, &owner).expect("removes"), Vec::<PathBuf>::new());
        assert_eq!(kind.find(settings, &owner).expect("looks"), TargetFound::Nothing);
        assert!(!owner.was_made());
    }
    kind.probe(settings).expect("the place is free");
    let target = &*trial.open();
    assert!(target.is_new() && scan(target).is_empty());
    append(target, 2, FRAME_BYTES).expect("appends");
}

/// An empty place may be a disk that is not mounted, or a path that is wrong. A target that looks empty there would make
/// the store forget every replica on it.
fn a_target_that_vanished_is_unavailable_and_not_empty(trial: &Trial<'_>) {
    if trial.capabilities.ends_with_process {
        return;
    }
    let (kind, settings, owner) = (trial.kind, &trial.settings, trial.owner());
    let vanish = || {
        let place = append(&*trial.open_bare(), 1, FRAME_BYTES).expect("appends");
        kind.remove(settings, &owner).expect("removes");
        owner.note_made().expect("notes");
        place
    };
    let place = vanish();
    let opened = kind.open(settings, &owner).expect("it may come back");
    assert_eq!(opened.trouble.expect("it is not there").kind(), io::ErrorKind::NotConnected);
    let target = (trial.decorate)(opened.target, &trial.stores);
    for result in [
        target.ready(),
        target.check_again(),
        append(&*target, 2, FRAME_BYTES).map(drop),
        target.read(place, 0, &mut [0; 10]),
        target.space().map(drop),
        target.scan(&mut |_, _| {}),
    ] {
        assert_eq!(result.expect_err("it is not there").kind(), io::ErrorKind::NotConnected);
    }
    assert_eq!(kind.find(settings, &owner).expect("looks"), TargetFound::Nothing, "nothing was made");
    drop(target);
    owner.forget_made().expect("renews");
    let renewed = trial.open_bare();
    assert!(renewed.is_new() && scan(&*renewed).is_empty());
    drop(renewed);
    vanish();
    let settings = crate::TargetSettings { persistent: false, ..settings.clone() };
    let opened = kind.open(&settings, &owner).expect("opens");
    assert!(opened.trouble.is_none() && opened.target.is_new(), "a target that need not last is made again");
    assert_eq!(scan(&*opened.target), BTreeSet::new());
}
