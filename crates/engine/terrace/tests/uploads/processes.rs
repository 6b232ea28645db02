//! Uploads in several processes, which die, and power cuts.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{
    check_and_rebuild, hold_mover, in_memory, live, lose_power, new_store, replicated, shared_frames, store_of, tier,
    used,
};
use crate::{all_parts, bytes_of, complete, durable, left, named, put_part};
use terrace::{Error, Store, UploadId};
use terrace_testkit::noise;

/// The power goes. A part that was acknowledged as durable stays, one that was in memory is gone, and a completion that needed it is
/// void as a whole: so the upload and the durable part are there, and nothing is there without its bytes.
#[test]
fn a_completion_is_void_as_a_whole() {
    // The other process completes it by several commits.
    for (numbers, is_staged) in [([1, 2], false), ([1, 2], true), ([2, 1], true)] {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store(dir.path());
        store.put_bytes(b"a", b"what was there before", &replicated()).unwrap();
        store.sync().unwrap();
        let mover = hold_mover(dir.path());
        let upload = store.begin_upload(b"a", &in_memory(), None).unwrap();
        let (kept, lost) = (noise(2_500_000, 1), noise(2_500_000, 3));
        put_part(&store, upload, numbers[0], &kept, &durable()).unwrap();
        put_part(&store, upload, numbers[1], &lost, &in_memory()).unwrap();
        if is_staged {
            assert!(spawn(dir.path(), "complete", upload, None).wait().unwrap().success());
        } else {
            store.complete_upload(upload, &all_parts(&store, upload), &in_memory(), |_| ()).unwrap();
        }
        assert_eq!((left(&store), store.stat(b"a").unwrap().length), (0, 5_000_000));
        let store = lose_power(dir.path(), store, mover, |_| {});
        assert_eq!(store.get(b"a").unwrap(), b"what was there before");
        assert_eq!(store.list_uploads(b"").unwrap().len(), 1);
        let found: Vec<u32> = store.list_parts(upload, None, 10).unwrap().iter().map(|part| part.number).collect();
        assert_eq!(found, [numbers[0]]);
        assert!(bytes_of(&store, upload, numbers[0]) == kept);
        let store = check_and_rebuild(store, dir.path());
        put_part(&store, upload, numbers[1], &lost, &replicated()).unwrap();
        complete(&store, upload).unwrap();
        let wanted = if numbers[0] == 1 { [kept, lost] } else { [lost, kept] };
        assert!(store.get(b"a").unwrap() == wanted.concat());
        let store = check_and_rebuild(store, dir.path());
        store.remove(b"a").unwrap();
        assert_eq!((live(&store), shared_frames(&store)), (0, 0));
    }
}

/// The same, where the object was made durable: it needs no commit of a part.
#[test]
fn a_durable_completion_survives_the_loss_of_power() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"before", b"something synced", &replicated()).unwrap();
    store.sync().unwrap();
    let mover = hold_mover(dir.path());
    let upload = store.begin_upload(b"a", &in_memory(), None).unwrap();
    let parts = [noise(1_500_000, 1), noise(20, 3), noise(700_000, 5)];
    // The first version of a part is in memory when it is replaced.
    put_part(&store, upload, 2, &noise(90_000, 7), &in_memory()).unwrap();
    for (number, part) in (1..).zip(&parts) {
        put_part(&store, upload, number, part, &in_memory()).unwrap();
    }
    store.complete_upload(upload, &all_parts(&store, upload), &durable(), |_| ()).unwrap();
    let store = lose_power(dir.path(), store, mover, |_| {});
    assert!(store.get(b"a").unwrap() == parts.concat());
    assert_eq!((left(&store), store.list_uploads(b"").unwrap()), (0, Vec::new()));
    let store = check_and_rebuild(store, dir.path());
    store.remove(b"a").unwrap();
    store.remove(b"before").unwrap();
    assert_eq!((live(&store), shared_frames(&store)), (0, 0));
}

/// Runs a role of this file in a process of its own.
fn spawn(dir: &Path, role: &str, upload: UploadId, fail_point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::child", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TEST_ROLE", role).env("TEST_DIR", dir).env("TEST_UPLOAD", upload.to_string());
    // Small enough that each happens.
    command.env("TERRACE_STAGE_BYTES", "1000000").env("TERRACE_SHARED_EXTENTS", "2");
    if let Some(point) = fail_point {
        command.env("TERRACE_FAIL_POINT", point);
    }
    command.spawn().unwrap()
}

/// The code with which a process ends that came too late.
const CAME_LATE: i32 = 77;

/// Not a test of its own: what other processes run.
#[test]
fn child() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let dir = std::env::var("TEST_DIR").unwrap();
    let dir = Path::new(&dir);
    let upload: UploadId = std::env::var("TEST_UPLOAD").unwrap().parse().unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    if role.starts_with("wait") {
        fs::write(dir.join(&role), "").unwrap();
        while !dir.join("go").exists() {
            std::thread::yield_now();
        }
    }
    let done = match role.trim_start_matches("wait ").split(' ').next().unwrap() {
        "part" => put_part(&store, upload, 3, &noise(2_500_000, 3), &in_memory()).map(drop),
        "complete" => store.complete_upload(upload, &all_of(&store, upload), &in_memory(), |_| ()).map(drop),
        _ => store.abort_upload(upload),
    };
    match done {
        Ok(()) => {}
        Err(Error::NoUpload { .. }) => std::process::exit(CAME_LATE),
        Err(error) => panic!("{error}"),
    }
}

/// The first two parts, if the upload has not ended.
fn all_of(store: &Store, upload: UploadId) -> Vec<(u32, String)> {
    let parts = store.list_parts(upload, None, 2).unwrap_or_default();
    parts.iter().map(named).collect()
}

/// A process dies in the middle. The next one finds the upload, or what it became, and nothing else.
#[test]
fn nothing_is_lost_or_left_when_a_process_dies() {
    let cases = [
        ("part", "put:staged", 0),
        ("part", "put:written", 0),
        ("part", "commit:logged@2", 0),
        ("part", "upload:part", 1),
        ("complete", "copy:staged", 0),
        ("complete", "copy:staged@2", 0),
        ("complete", "commit:logged", 0),
        ("complete", "upload:completed", 1),
        ("abort", "commit:logged", 0),
        ("abort", "upload:aborted", 1),
    ];
    for (role, point, is_done) in cases {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
        let upload = store.begin_upload(b"a", &replicated(), None).unwrap();
        let parts = [noise(2_500_000, 1), noise(1_200_000, 2)];
        for (number, part) in (1..).zip(&parts) {
            put_part(&store, upload, number, part, &replicated()).unwrap();
        }
        store.sync().unwrap();
        let (frames, bytes) = (live(&store), used(&store));
        store.close().unwrap();
        let status = spawn(dir.path(), role, upload, Some(point)).wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{role} did not die at {point}");
        let store = Store::open(&dir.path().join("store")).unwrap();
        // Overwrites what the dead one may have appended to the log and did not commit.
        store.put_bytes(b"other", b"", &replicated()).unwrap();
        store.remove(b"other").unwrap();
        assert_eq!(store.catalog().staged().unwrap(), [], "{role}, {point}");
        let store = match (role, is_done) {
            ("complete", 1) => {
                assert!(store.get(b"a").unwrap() == parts.concat());
                store
            }
            ("abort", 1) => store,
            (_, is_done) => {
                let listed = store.list_parts(upload, None, 10).unwrap();
                assert_eq!(listed.len(), 2 + is_done, "{role}, {point}");
                (1..).zip(&parts).for_each(|(number, part)| assert!(bytes_of(&store, upload, number) == *part));
                if listed.len() == 3 {
                    assert!(bytes_of(&store, upload, 3) == noise(2_500_000, 3));
                }
                let store = check_and_rebuild(store, dir.path());
                complete(&store, upload).unwrap();
                assert!(store.get(b"a").unwrap().starts_with(&parts.concat()));
                store
            }
        };
        let store = check_and_rebuild(store, dir.path());
        assert_eq!(left(&store), 0, "{role}, {point}");
        let wanted = match (role, is_done) {
            ("abort", 1) => 0,
            ("part", 1) => frames + 2 * 3,
            _ => frames,
        };
        assert_eq!(live(&store), wanted, "{role}, {point}");
        store.list(b"a", None, 1).unwrap().iter().for_each(|(key, _)| store.remove(key).unwrap());
        store.sync().unwrap();
        store.reap_now().unwrap();
        assert_eq!((live(&store), shared_frames(&store)), (0, 0), "{role}, {point}");
        // What the dead one wrote and no commit names goes, too.
        store.prune(true).unwrap();
        assert!(used(&store) < bytes / 10, "{role}, {point}: {} bytes of {bytes}", used(&store));
    }
}

/// Processes end one upload, or put a part of it, at the same time: one of them ends it, and nothing is left.
#[test]
fn of_two_processes_one_ends_an_upload() {
    for (round, roles) in
        [["complete", "complete", "part"], ["complete", "abort", "part"]].iter().cycle().take(6).enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
        let upload = store.begin_upload(b"a", &replicated(), None).unwrap();
        let parts = [noise(2_500_000, 1), noise(1_200_000, 2)];
        for (number, part) in (1..).zip(&parts) {
            put_part(&store, upload, number, part, &replicated()).unwrap();
        }
        let roles: Vec<String> = roles.iter().enumerate().map(|(who, role)| format!("wait {role} {who}")).collect();
        let children: Vec<Child> = roles.iter().map(|role| spawn(dir.path(), role, upload, None)).collect();
        terrace_testkit::wait_until("all are ready", || roles.iter().all(|role| dir.path().join(role).exists()));
        fs::write(dir.path().join("go"), "").unwrap();
        let codes: Vec<i32> = children.into_iter().map(|mut child| child.wait().unwrap().code().unwrap()).collect();
        assert!(codes.iter().all(|code| [0, CAME_LATE].contains(code)), "round {round}: {codes:?}");
        let ended: Vec<usize> = (0..2).filter(|who| codes[*who] == 0).collect();
        assert_eq!(ended.len(), 1, "round {round}: {codes:?}");
        assert_eq!((left(&store), store.catalog().staged().unwrap()), (0, Vec::new()), "round {round}");
        match store.get(b"a") {
            Ok(bytes) => assert!(roles[ended[0]].contains("complete") && bytes == parts.concat(), "round {round}"),
            Err(error) => assert!(roles[ended[0]].contains("abort"), "round {round}: {error}"),
        }
        check_and_rebuild(store, dir.path());
    }
}
