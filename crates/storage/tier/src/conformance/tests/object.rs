//! The suite over services, and what is true of object targets alone.

use std::collections::BTreeSet;

use terrace_testkit::Redis;

use super::super::frames::scan;
use super::*;
use crate::frame_blobs::SLOT_BYTES;
use crate::{ObjectKind, ObjectTarget, Reach, Service};

fn service(name: &str, options: &[(&str, String)], root: &str) -> Service {
    let options = options.iter().map(|(option, value)| ((*option).to_owned(), value.clone())).collect();
    Service { name: name.into(), options, root: root.into(), timeout: Duration::from_secs(10) }
}

fn owner(store: u64, dir: &Path, ids: Arc<dyn Ids>) -> TargetOwner {
    TargetOwner { store, number: 1, dir: dir.to_owned(), ids }
}

/// Opens a target that must not be emptied.
fn open(service: &Service, store: u64, dir: &Path) -> io::Result<ObjectTarget> {
    let owner = owner(store, dir, ids());
    let object = ObjectTarget::new(service.clone(), &owner, CAPACITY_BYTES, Some(dir.join("made")))?;
    object.ready().map(|()| object)
}

fn fs(folder: &tempfile::TempDir) -> Service {
    service("fs", &[], folder.path().join("blobs").to_str().expect("UTF-8"))
}

fn on_fs() -> Site {
    let folder = tempfile::tempdir().expect("a folder");
    let mut site = site(folder.path().join("blobs"), folder);
    site.settings.service = Some("fs".into());
    site
}

fn on_redis(redis: &Redis) -> Site {
    static NEXT_ROOT: AtomicU64 = AtomicU64::new(0);
    let root = format!("/run-{}", NEXT_ROOT.fetch_add(1, Ordering::Relaxed));
    let mut site = site(root, tempfile::tempdir().expect("a folder"));
    site.settings.service = Some("redis".into());
    site.settings.options.insert("endpoint".into(), redis.endpoint());
    site
}

#[test]
fn blobs_in_files() {
    check(&ObjectKind, on_fs);
}

#[test]
fn blobs_in_redis() {
    if let Some(server) = Redis::start() {
        check(&ObjectKind, || on_redis(&server));
    }
}

#[test]
fn another_process_sees_what_one_wrote_and_takes_over_what_it_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = fs(&folder);
    let owner = owner(STORE_ID, &folder.path().join("state"), ids());
    let open = || ObjectTarget::new(service.clone(), &owner, CAPACITY_BYTES, None).expect("a target");
    let (first, second) = (open(), open());
    let old = append(&first, 1, 5000).expect("appends");
    let new = append(&second, 2, 5000).expect("appends");
    assert_ne!(old.segment, new.segment, "each writes to its own segment");
    assert!(!second.discard(old.segment).expect("discards"), "its writer still holds it");
    drop(first);
    assert!(read(&second, old, 1, 0, 5000).expect("reads") == bytes(1, 5000));
    let third = open();
    assert_eq!(append(&third, 3, 10).expect("appends").segment, old.segment);
    drop(third);
    assert_eq!(scan(&second).len(), 3);
    assert!(second.discard(old.segment).expect("discards"), "no writer holds it");
    assert_eq!(scan(&second), BTreeSet::from([(2, new)]));
    assert_eq!(open().space().expect("space").used, u64::from(new.length));
    let folders = std::fs::read_dir(folder.path().join("blobs/segments")).expect("reads").count();
    assert_eq!(folders, 1, "an empty segment leaves no folder");
}

#[test]
fn a_lost_ledger_is_made_anew_from_a_listing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, state) = (fs(&folder), folder.path().join("state"));
    let first = open(&service, STORE_ID, &state).expect("a target");
    let places: Vec<Place> = (1..5).map(|write| append(&first, write, 5000).expect("appends")).collect();
    first.free(&places[3..]).expect("frees");
    let used = first.space().expect("space").used;
    drop(first);
    std::fs::remove_dir_all(&state).expect("removes");
    // Its numbers continue after those that are known to be used.
    let numbers: Arc<dyn Ids> = Arc::new(Counter(AtomicU64::new(places[0].segment + 1)));
    let owner = owner(STORE_ID, &state, numbers);
    let second = ObjectTarget::new(service, &owner, CAPACITY_BYTES, None).expect("a target");
    assert_eq!(second.space().expect("space").used, used);
    let new = append(&second, 9, 5000).expect("appends");
    assert!(!places.contains(&new), "the place of a freed blob is not used again");
    assert_eq!(scan(&second).len(), 4);
}

/// A target whose marker was missing was made again, whatever the reason: a mistyped bucket, or a marker that somebody had
/// deleted. The store then forgot every replica on it, and the blobs that were still there were swept.
#[test]
fn a_target_without_its_marker_is_away_until_it_is_renewed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, state) = (fs(&folder), folder.path().join("state"));
    let target = open(&service, STORE_ID, &state).expect("a target");
    assert!(target.is_new());
    let place = append(&target, 1, 100).expect("appends");
    let (blobs, elsewhere) = (folder.path().join("blobs"), folder.path().join("elsewhere"));
    std::fs::rename(&blobs, &elsewhere).expect("vanishes");
    let away = |error: io::Error| {
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
        assert!(error.to_string().contains("terrace tiers renew"), "{error}");
    };
    away(target.read(place, 0, &mut [0; 10]).expect_err("away"));
    away(append(&target, 2, 100).expect_err("away"));
    away(target.space().expect_err("away"));
    away(open(&service, STORE_ID, &state).err().expect("away"));
    assert!(!blobs.join("terrace-target").exists(), "nothing is made in its place");
    std::fs::rename(&elsewhere, &blobs).expect("comes back");
    assert!(read(&target, place, 1, 0, 100).expect("reads") == bytes(1, 100));
    // A marker that was not written to its end is none.
    let marker = blobs.join("terrace-target");
    let whole = std::fs::read(&marker).expect("reads");
    for length in [0, whole.len() - 1] {
        std::fs::write(&marker, &whole[..length]).expect("shortens");
        away(open(&service, STORE_ID, &state).err().expect("away"));
    }
    std::fs::remove_dir_all(&blobs).and_then(|()| std::fs::remove_file(state.join("made"))).expect("renews");
    let renewed = open(&service, STORE_ID, &state).expect("made again");
    assert!(renewed.is_new());
    assert_eq!(renewed.read(place, 0, &mut [0; 10]).expect_err("gone").kind(), io::ErrorKind::NotFound);
    assert_eq!(renewed.space().expect("space").used, 0);
}

/// Two processes note at the same time how far the target is synced. The note of the first could stay on the target, and that of the second in
/// the store's directory: the target was then taken for an older copy.
#[test]
fn notes_of_two_processes_are_no_older_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, state) = (fs(&folder), folder.path().join("state"));
    let open = || open(&service, STORE_ID, &state).expect("a target");
    open().forget_new().expect("begins");
    for round in 0..20_u64 {
        let (first, second) = (open(), open());
        let reach = |step| Reach { sequence: round * 100 + step, record: (round * 100 + step + 1, step) };
        std::thread::scope(|scope| {
            scope.spawn(|| (1..20).for_each(|step| first.note_synced(reach(2 * step)).expect("notes")));
            scope.spawn(|| (1..20).for_each(|step| second.note_synced(reach(2 * step + 1)).expect("notes")));
        });
        let third = open();
        assert_eq!(third.synced_to().expect("reads"), Some(reach(39)), "the last one");
        assert!(!third.is_new());
    }
}

/// A target that may be lost at any time is made again without an error.
#[test]
fn a_volatile_target_that_was_emptied_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (service, state) = (fs(&folder), folder.path().join("state"));
    let owner = owner(STORE_ID, &state, ids());
    let target = ObjectTarget::new(service, &owner, CAPACITY_BYTES, None).expect("a target");
    let place = append(&target, 1, 100).expect("appends");
    std::fs::remove_dir_all(folder.path().join("blobs")).expect("empties");
    assert_eq!(target.read(place, 0, &mut [0; 10]).expect_err("gone").kind(), io::ErrorKind::NotFound);
    assert_eq!(target.space().expect("space").used, 0);
    append(&target, 2, 100).expect("appends");
    assert_eq!(target.space().expect("space").used, u64::from(place.length));
}

/// WebDAV answers to a range beyond a shortened blob with an error of its own, which was taken for the service's failure:
/// the replica was never found bad, and so never repaired.
#[test]
fn a_shortened_blob_is_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = open(&fs(&folder), STORE_ID, &folder.path().join("state")).expect("a target");
    let places: Vec<Place> = (1..4).map(|write| append(&target, write, 5000).expect("appends")).collect();
    for (place, left) in places.iter().zip([0, 10, 4000]) {
        let slot = place.offset / SLOT_BYTES;
        let blob = folder.path().join(format!("blobs/segments/{:016x}/{slot:03x}", place.segment));
        std::fs::File::options().write(true).open(blob).and_then(|file| file.set_len(left)).expect("shortens");
        let error = target.read(*place, 4500, &mut [0; 100]).expect_err("too short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{left} bytes are left: {error}");
    }
    assert_eq!(scan(&target).len(), 1, "one header is left");
}

#[test]
fn a_service_that_hangs_or_is_not_there_ends_in_an_error_with_its_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    std::fs::write(folder.path().join("file"), "").expect("writes");
    let below_a_file = folder.path().join("file/below");
    let below_a_file = service("fs", &[], below_a_file.to_str().expect("UTF-8"));
    let error = open(&below_a_file, STORE_ID, folder.path()).err().expect("it cannot be");
    assert!(error.to_string().contains("Not a directory"), "{error}");
    // It takes connections and never says a word.
    let silent_server = std::os::unix::net::UnixListener::bind(&socket).expect("listens");
    silent_server.set_nonblocking(true).expect("is a socket");
    let endpoint = format!("unix://localhost{}", socket.display());
    let silent = Service { timeout: Duration::from_millis(200), ..service("redis", &[("endpoint", endpoint)], "/") };
    let error = open(&silent, STORE_ID, folder.path()).err().expect("it hangs");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    let asked = std::iter::from_fn(|| silent_server.accept().ok()).count();
    assert_eq!(asked, 1, "the limit holds for all retries together, so a service that hangs is asked once");
}

#[test]
fn what_cannot_be_is_said_before_the_service_is_asked() {
    let state = tempfile::tempdir().expect("a folder");
    let error = open(&service("tape", &[], "/"), STORE_ID, state.path()).err().expect("unknown");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("services-tape") && error.to_string().contains("redis"), "{error}");
    let unset = service("redis", &[("password", "${TERRACE_NOT_SET}".into())], "/");
    let error = open(&unset, STORE_ID, state.path()).err().expect("not set");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("TERRACE_NOT_SET"), "{error}");
}

/// The caller of the store may be a task itself.
#[test]
fn a_caller_on_a_runtime_is_served() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        open(&fs(&folder), STORE_ID, folder.path()).expect("a target").space().expect("space")
    });
}
