//! Object targets on real servers: Redis, S3 (moto), WebDAV (wsgidav), SFTP (OpenSSH) and HDFS (Hadoop), which run the conformance suite,
//! are damaged behind the store's back, and are killed while targets and stores use them. `TERRACE_SERVER_KILLS` is the number of kills of
//! each.

#![cfg(all(
    feature = "services-redis",
    feature = "services-s3",
    feature = "services-sftp",
    feature = "services-webdav",
    feature = "services-webhdfs"
))]
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod hdfs;
mod origins;
mod servers;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{replicated, store_of, tier};
use hdfs::Hdfs;
use servers::{Server, Sftp, WebDav};
use terrace::report::TierState;
use terrace::tier::conformance::{self, Outage, Site};
use terrace::tier::{Blobs, ObjectKind, Service, TargetSettings};
use terrace::{Ack, Error, PutOptions, RebuildFrom, Store};
use terrace_testkit::{Moto, Redis, noise, skip, wait_until};

/// How long the next write may take on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Bytes of an object that is written while the server is killed.
const KILLED_OBJECT_BYTES: usize = 400_000;
/// Bytes of a blob that is written in several parts.
const UPLOAD_BYTES: usize = 20 << 20;

/// A store with a directory tier above a target of this name on the server.
fn new_store(dir: &Path, server: &dyn Server, target: &str) -> Store {
    store_of(dir, &[tier(dir, "disk", &["disk"], ""), server.tier(target)])
}

/// Removes the first replicas, so that only the service's are left.
fn lose_the_directory(dir: &Path) {
    for entry in fs::read_dir(dir.join("disk/segments")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// The parts of the suite, each with a store of its own.
fn check(server: &mut dyn Server) {
    check_conformance(server);
    for (name, part) in [
        ("objects", objects_are_read_overwritten_and_removed as fn(&Path, &mut dyn Server, &str)),
        ("damage", scrub_finds_what_is_damaged_and_mends_it),
        ("outlives", a_store_is_made_again_from_the_server),
        ("origin", origins::files_of_a_service_are_read_through_a_store),
        ("kills", nothing_acknowledged_is_lost_where_the_server_is_killed),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let started = Instant::now();
        part(dir.path(), server, name);
        println!("{} {name}: {:.1} s", server.name(), started.elapsed().as_secs_f64());
    }
}

fn settings(server: &dyn Server, target: &str) -> TargetSettings {
    let Service { name, options, root, timeout } = server.service(target);
    TargetSettings { service: Some(name), options, timeout: Some(timeout), ..TargetSettings::at(root) }
}

fn site(server: &dyn Server, target: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(server, target);
    Site { settings, stores: folder.path().to_owned(), guard: Box::new(folder) }
}

fn check_conformance(server: &mut dyn Server) {
    let (started, sites) = (Instant::now(), AtomicU64::new(0));
    conformance::check(&ObjectKind, || site(server, &format!("conformance-{}", sites.fetch_add(1, Ordering::Relaxed))));
    println!("{} conformance: {:.1} s", server.name(), started.elapsed().as_secs_f64());
    let started = Instant::now();
    let place = site(server, "outage");
    conformance::check_outage(&ObjectKind, place, |outage| match outage {
        Outage::Begins => server.kill(),
        Outage::Ends => server.start_again(),
    });
    println!("{} outage: {:.1} s", server.name(), started.elapsed().as_secs_f64());
}

fn objects_are_read_overwritten_and_removed(dir: &Path, server: &mut dyn Server, target: &str) {
    let store = new_store(dir, server, target);
    let object = |n: usize, seed: u64| (format!("o/{n}"), noise(n, seed));
    let mut objects = [object(1, 1), object(70_000, 2), object(3_000_001, 3)];
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
    }
    objects[1].1 = noise(70_000, 4);
    store.put_bytes(b"o/70000", &objects[1].1, &replicated()).unwrap();
    store.sync().unwrap();
    for (key, _) in &objects {
        for extent in store.locate(key.as_bytes()).unwrap().extents {
            assert_eq!(extent.replicas.iter().map(|r| r.tier.as_str()).collect::<Vec<_>>(), ["disk", "bucket"]);
        }
    }
    drop(store);

    lose_the_directory(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    for (key, bytes) in &objects {
        for (start, length) in
            [(0, bytes.len()), (bytes.len() / 2, 10), (bytes.len() - 1, 1), (bytes.len() / 3, 100_000)]
        {
            let mut part = vec![0; length];
            let read = store.read_at(key.as_bytes(), start as u64, &mut part).unwrap();
            assert_eq!(read, length.min(bytes.len() - start));
            assert!(part[..read] == bytes[start..start + read], "{key} from {start} on");
        }
    }
    store.repair_suspects().unwrap();
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (10, 0, 0), "repaired");

    store.remove(b"o/3000001").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    store.close().unwrap();
    let blobs = Blobs::new(&server.service(target)).unwrap();
    let left = blob_names(dir);
    assert_eq!(left.len(), 2, "one for each frame that is left");
    // OpenDAL does not list in Redis.
    if server.name() != "redis" {
        assert_eq!(blobs.list("segments/").unwrap(), left);
    }
    let store = Store::rebuild(&dir.join("store")).unwrap();
    for (key, bytes) in &objects[..2] {
        assert!(store.get(key.as_bytes()).unwrap() == *bytes, "{key} after the rebuild");
    }
    store.close().unwrap();
}

/// The store's own directory and its disk are lost.
fn a_store_is_made_again_from_the_server(dir: &Path, server: &mut dyn Server, target: &str) {
    let store = new_store(dir, server, target);
    let objects: Vec<(String, Vec<u8>)> = (0..4).map(|n| (format!("n/{n}"), noise(70_000, n))).collect();
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
        store.sync().unwrap();
    }
    store.close().unwrap();
    let old = dir.join("old");
    fs::rename(dir.join("store"), &old).unwrap();
    fs::rename(dir.join("disk"), dir.join("elsewhere")).unwrap();
    let (new, from) = (dir.join("new"), settings(server, target));
    let made = Store::rebuild_from(&new, &from, RebuildFrom::default()).map(drop).unwrap_err().to_string();
    // OpenDAL does not list in Redis.
    if server.name() == "redis" {
        return assert!(made.contains("no copy of the store's log"), "{made}");
    }
    assert!(made.contains("may still be in use"), "{made}");
    let (store, made) = Store::rebuild_from(&new, &from, RebuildFrom { force: true, salvage: false }).unwrap();
    assert_eq!((made.objects, made.lost.len(), made.targets.len()), (4, 0, 1));
    for (key, bytes) in &objects {
        assert!(store.get(key.as_bytes()).unwrap() == *bytes, "{key}");
    }
    store.put_bytes(b"new", &objects[0].1, &replicated()).unwrap();
    store.remove(b"n/3").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    fs::rename(dir.join("elsewhere"), dir.join("disk")).unwrap();
    let error = Store::open(&old).unwrap().sync().unwrap_err().to_string();
    assert!(error.contains("is used by another directory"), "{error}");
    let store = Store::open(&new).unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().lost, 0);
    store.close().unwrap();
}

/// The names of the target's blobs, as its ledger tells them: not every service can list.
fn blob_names(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir.join("store/object-1")).unwrap() {
        let entry = entry.unwrap();
        let segment = entry.file_name().into_string().unwrap();
        if segment.len() == 16 {
            let lengths = fs::read(entry.path()).unwrap();
            let alive = lengths.chunks(4).zip(0..).filter(|(length, _)| *length != [0; 4]);
            names.extend(alive.map(|(_, slot)| format!("segments/{segment}/{slot:03x}")));
        }
    }
    names.sort_unstable();
    names
}

/// HDFS refuses the last step of such an upload where the folder is missing, and OpenDAL takes the answer for success. SFTP shows
/// a blob while it is written.
fn a_blob_in_parts_appears_whole(server: &dyn Server) {
    let blobs = Blobs::new(&server.service("parts")).unwrap();
    for (name, hidden) in [("blob", ".blob.part"), ("folder/blob", "folder/.blob.part")] {
        let mut before = None;
        for seed in 1..3 {
            let bytes = noise(UPLOAD_BYTES, seed);
            let mut upload = blobs.begin(name, hidden).unwrap();
            for part in bytes.chunks(UPLOAD_BYTES / 7) {
                upload = upload.write(part.to_vec().into()).unwrap();
            }
            match blobs.read(name) {
                Err(e) => assert!(before.is_none() && e.kind() == ErrorKind::NotFound, "{name} has not ended: {e}"),
                read => assert!(read.ok() == before, "{name} has not ended"),
            }
            upload.end().unwrap();
            assert!(blobs.read(name).unwrap() == bytes, "{name}");
            assert_eq!(blobs.read(hidden).unwrap_err().kind(), ErrorKind::NotFound);
            before = Some(bytes);
        }
    }
}

/// On WebDAV a shortened blob was taken for the target's failure: the target was set aside again and again, and the
/// replica never repaired.
fn scrub_finds_what_is_damaged_and_mends_it(dir: &Path, server: &mut dyn Server, target: &str) {
    let store = new_store(dir, server, target);
    let objects: Vec<(String, Vec<u8>)> = (0..6).map(|n| (format!("d/{n}"), noise(70_000, n))).collect();
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
    }
    store.sync().unwrap();
    let blobs = Blobs::new(&server.service(target)).unwrap();
    let names = blob_names(dir);
    assert_eq!(names.len(), objects.len());
    let change = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = blobs.read(name).unwrap();
        change(&mut bytes);
        blobs.write(name, vec![bytes.into()]).unwrap();
    };
    change(&names[0], &|bytes| bytes[40_000] ^= 1);
    blobs.delete(vec![names[1].clone()]).unwrap();
    change(&names[2], &|bytes| bytes.truncate(35_000));
    change(&names[3], &|bytes| bytes.truncate(10));
    change(&names[4], &|bytes| bytes.truncate(0));
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (12, 5, 0));
    assert_eq!(store.status().unwrap().tiers[1].state, TierState::Ok, "damage is not the target's failure");
    let found = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.repaired, found.lost), (5, 5, 0));
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (12, 0, 0));
    store.close().unwrap();
    lose_the_directory(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    for (key, bytes) in &objects {
        assert!(store.get(key.as_bytes()).unwrap() == *bytes, "{key} from the service");
    }
    store.close().unwrap();
}

fn nothing_acknowledged_is_lost_where_the_server_is_killed(dir: &Path, server: &mut dyn Server, target: &str) {
    let store = new_store(dir, server, target);
    let mut acknowledged = 0;
    let object = |n| noise(KILLED_OBJECT_BYTES, n);
    let kills: u64 = std::env::var("TERRACE_SERVER_KILLS").map_or(1, |text| text.parse().unwrap());
    for kill in 0..kills {
        let (report, receipts) = mpsc::channel();
        let written = AtomicU64::new(acknowledged);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let durable = PutOptions { ack: Some(Ack::Durable), ..replicated() };
                // Until nobody listens any more.
                for n in acknowledged.. {
                    match store.put_bytes(format!("k/{n}").as_bytes(), &object(n), &durable) {
                        // On a very busy machine the server may be back too late for the acknowledgement.
                        Ok(_) | Err(Error::StillOwed { .. }) => written.store(n + 1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    }
                    if report.send(()).is_err() {
                        break;
                    }
                }
            });
            // Taken along, so that the writer ends where this fails.
            let next = move || receipts.recv_timeout(MAX_WAIT).expect("the writer goes on");
            for _ in 0..3 {
                next();
            }
            // The writer is in the middle of another one.
            server.kill();
            let key = format!("meanwhile/{kill}");
            let receipt = store.put_bytes(key.as_bytes(), &object(kill), &PutOptions::default()).unwrap();
            wait_until("the target is set aside", || store.status().unwrap().tiers[1].state == TierState::Away);
            assert!(store.status().unwrap().owed > 0, "{receipt:?}");
            assert!(store.get(key.as_bytes()).unwrap() == object(kill), "the store goes on");
            server.start_again();
            // One that it may have had before, the one that waited for the server, and one more.
            for _ in 0..3 {
                next();
            }
        });
        acknowledged = written.into_inner();
        wait_until("the target has all that it is owed", || store.sync().is_ok() && store.status().unwrap().owed == 0);
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.bad, found.lost), (0, 0), "what was acknowledged is there");
    }
    store.close().unwrap();
    lose_the_directory(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    for n in 0..acknowledged {
        assert!(store.get(format!("k/{n}").as_bytes()).unwrap() == object(n), "k/{n}");
    }
    store.close().unwrap();
}

#[test]
fn over_redis() {
    if let Some(mut server) = Redis::start() {
        check(&mut server);
    }
}

#[test]
fn over_s3() {
    match Moto::start() {
        Ok(mut server) => check(&mut server),
        Err(missing) => skip("over_s3", &missing),
    }
}

#[test]
fn over_webdav() {
    match WebDav::start() {
        Ok(mut server) => check(&mut server),
        Err(missing) => skip("over_webdav", &missing),
    }
}

#[test]
fn over_hdfs() {
    match Hdfs::start() {
        Ok(mut server) => {
            check(&mut server);
            a_blob_in_parts_appears_whole(&server);
        }
        Err(missing) => skip("over_hdfs", &missing),
    }
}

/// A bucket that was empty, as after a mistyped name, was taken for the target: a marker was written into it, and every
/// replica on it forgotten.
#[test]
fn an_emptied_bucket_is_away_until_it_is_renewed() {
    let mut server = match Moto::start() {
        Ok(server) => server,
        Err(missing) => return skip("an_emptied_bucket_is_away_until_it_is_renewed", &missing),
    };
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), &server, "runs");
    store.put_bytes(b"before", &noise(70_000, 1), &replicated()).unwrap();
    store.close().unwrap();
    server.lose_everything();
    for bucket in ["none", "an empty one"] {
        let store = Store::open(&dir.path().join("store")).unwrap();
        assert_eq!(store.status().unwrap().tiers[1].state, TierState::Away, "bucket: {bucket}");
        assert_eq!(store.locate(b"before").unwrap().extents[0].replicas.len(), 2, "no replica is forgotten");
        store.put_bytes(bucket.as_bytes(), &noise(70_000, 2), &PutOptions::default()).unwrap();
        // Closing it would wait for what is owed.
        drop(store);
        if bucket == "none" {
            server.make_bucket();
        }
    }
    let store = Store::renew_tier(&dir.path().join("store"), "bucket", false).unwrap().unwrap();
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (6, 0, 0));
    store.close().unwrap();
}

/// Set for a child process that runs the suite over SFTP.
const CHILD_VARIABLE: &str = "TERRACE_TEST_SFTP_CHILD";
/// Holds the lines of the tier that a child process uses.
const TIER_VARIABLE: &str = "TERRACE_TEST_SFTP_TIER";
/// Holds the endpoint, the key and the root of the service that a child process calls, one a line.
const SERVICE_VARIABLE: &str = "TERRACE_TEST_SFTP_SERVICE";

/// Children that speak SFTP. For them, `ssh` is a script that keeps it from the user's own settings and known hosts.
struct SftpChildren {
    dir: tempfile::TempDir,
    ssh: PathBuf,
}

impl SftpChildren {
    fn new() -> SftpChildren {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let settings = format!("UserKnownHostsFile {}/known_hosts\n", dir.path().display());
        fs::write(dir.path().join("settings"), settings).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ssh = std::env::split_paths(&path).map(|folder| folder.join("ssh")).find(|file| file.is_file()).unwrap();
        SftpChildren { dir, ssh }
    }

    /// Runs a test in a child. The lines of shell run before and after each `ssh`.
    fn run(&self, (before, after): (&str, &str), test: &str, variable: &str, value: &str) {
        let script = self.dir.path().join("bin/ssh");
        let ssh = format!("{} -F {}/settings \"$@\"", self.ssh.display(), self.dir.path().display());
        let lines = match after {
            "" => format!("#!/bin/sh\n{before}\nexec {ssh}\n"),
            after => format!("#!/bin/sh\n{before}\n{ssh}\nended=$?\n{after}\nexit $ended\n"),
        };
        fs::write(&script, lines).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.dir.path().join("bin")).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env("PATH", &path).env("XDG_STATE_HOME", self.state());
        let child = child.env(variable, value).output().unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
        println!("{said}");
        assert!(child.status.success(), "{said}");
    }

    /// The folder of the folders of control sockets.
    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn check_nothing_is_left(&self) {
        let left: Vec<PathBuf> = fs::read_dir(self.state()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "folders are left: {left:?}");
        // A process that was told to end may take a moment.
        wait_until("no ssh process is left", || !is_any_process_named(&self.state()));
    }
}

/// SFTP is spoken by `ssh` processes, each with a control socket in a folder. They outlived the process that had started
/// them, so each command left a process, a folder and a connection behind.
#[test]
fn over_sftp_no_process_and_no_folder_is_left() {
    if let Err(missing) = Sftp::program() {
        return skip("over_sftp_no_process_and_no_folder_is_left", &missing);
    }
    let children = SftpChildren::new();
    children.run(("", ""), "the_suite_over_sftp", CHILD_VARIABLE, "1");
    // This server lives on: an `ssh` process does not end because its connection does.
    let server = Sftp::start().unwrap();
    children.run(("", ""), "a_command_over_sftp", TIER_VARIABLE, &server.tier("command"));
    children.check_nothing_is_left();
}

/// A connection that was dropped while its `ssh` process was told to end, or started, removed the folder of the control socket.
/// Nothing could end the process after that: of twelve `terrace ls`, four left one.
#[test]
fn over_sftp_no_process_is_left_that_has_lost_its_folder() {
    if let Err(missing) = Sftp::program() {
        return skip("over_sftp_no_process_is_left_that_has_lost_its_folder", &missing);
    }
    let server = Sftp::start().unwrap();
    let children = SftpChildren::new();
    for target in ["first", "second", "third"] {
        let late_end = "case \" $* \" in *' -O exit '*) sleep 0.3;; esac";
        children.run((late_end, ""), "a_command_over_sftp", TIER_VARIABLE, &server.tier(target));
    }
    children.check_nothing_is_left();
    // The process is in the background, and the client waits for it, until the time for the call is over.
    let late_start = "case \" $* \" in *' -M '*) sleep 5;; esac";
    let options = server.options();
    let service = format!("{}\n{}\n{}", options["endpoint"], options["key"], server.root("late"));
    children.run(("", late_start), "a_call_over_sftp_that_takes_too_long", SERVICE_VARIABLE, &service);
    children.check_nothing_is_left();
}

/// Whether the command line of any process names this path.
fn is_any_process_named(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    // A process that ends meanwhile has no command line.
    let mut lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.windows(path.len()).any(|part| part == path))
}

/// Does nothing but as the child of the test above.
#[test]
fn the_suite_over_sftp() {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        check(&mut Sftp::start().unwrap());
    }
}

/// Does nothing but as the other child: closes its store and ends at once, as a command does.
#[test]
fn a_command_over_sftp() {
    if let Ok(bucket) = std::env::var(TIER_VARIABLE) {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket]);
        store.put_bytes(b"o", &noise(70_000, 1), &replicated()).unwrap();
        store.close().unwrap();
        drop(dir);
        std::process::exit(0);
    }
}

/// Does nothing but as a child.
#[test]
fn a_call_over_sftp_that_takes_too_long() {
    if let Ok(lines) = std::env::var(SERVICE_VARIABLE) {
        let [endpoint, key, root] = lines.lines().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
        let options =
            servers::options([("endpoint", endpoint), ("key", key), ("known_hosts_strategy", "accept".into())]);
        let service = Service { name: "sftp".into(), options, root, timeout: Duration::from_secs(1) };
        assert_eq!(service.probe().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
