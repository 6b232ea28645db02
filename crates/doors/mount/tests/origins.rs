//! A mount shows the files of an origin: they are listed, read in parts, mapped and copied, and cannot be changed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use common::{Mounted, run, tool};
use rustix::io::Errno;
use tempfile::TempDir;
use terrace_testkit::{noise, wait_until};

/// Names are asked for again each time.
const AT_ONCE: Duration = Duration::ZERO;
/// Names are asked for once.
const ASK_ONCE: Duration = Duration::from_secs(3600);

/// A mounted store with an origin below `data/far`, and the origin's directory.
fn mounted_with_origin(max_age: Duration) -> Option<(Mounted, TempDir)> {
    let mounted = Mounted::new()?;
    let far = tempfile::tempdir().unwrap();
    fs::create_dir(far.path().join("sub")).unwrap();
    fs::write(far.path().join("long"), noise(5_000_000, 1)).unwrap();
    fs::write(far.path().join("sub/short"), b"words\n").unwrap();
    fs::set_permissions(far.path().join("sub/short"), Permissions::from_mode(0o640)).unwrap();
    symlink("sub/short", far.path().join("link")).unwrap();
    let url = far.path().to_str().unwrap();
    mounted.files.store().add_origin("data/far", url, Default::default(), Some(max_age)).unwrap();
    Some((mounted, far))
}

fn names(folder: PathBuf) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_are_listed_and_read_in_parts() {
    let Some((mounted, far)) = mounted_with_origin(ASK_ONCE) else { return };
    let (at, bytes) = (mounted.at.join("data/far"), noise(5_000_000, 1));
    assert_eq!(names(at.clone()), ["link", "long", "sub"]);
    assert_eq!(names(at.join("sub")), ["short"]);
    let stat = fs::metadata(at.join("long")).unwrap();
    let there = fs::metadata(far.path().join("long")).unwrap();
    assert_eq!((stat.len(), stat.modified().unwrap()), (5_000_000, there.modified().unwrap()));
    assert_eq!(fs::metadata(at.join("sub/short")).unwrap().mode() & 0o777, 0o640);
    let cached = || mounted.files.store().origins().unwrap()[0].cached;
    assert_eq!(cached(), 0, "nothing is copied before it is read");
    let file = File::open(at.join("long")).unwrap();
    let mut part = vec![0; 1000];
    file.read_exact_at(&mut part, 3_000_000).unwrap();
    assert!(part == bytes[3_000_000..3_001_000]);
    assert!(cached() < 1 << 20, "{}", cached());
    assert!(fs::read(at.join("long")).unwrap() == bytes);
    assert_eq!(fs::read_link(at.join("link")).unwrap(), PathBuf::from("sub/short"));
    assert_eq!(fs::read(at.join("link")).unwrap(), b"words\n");
    // The second read needs no origin.
    fs::rename(far.path().join("long"), far.path().join("away")).unwrap();
    file.read_exact_at(&mut part, 1_234_567).unwrap();
    assert!(part == bytes[1_234_567..1_235_567]);
}

#[test]
fn programs_read_and_copy_them() {
    let (Some(cp), Some(cmp), Some(sh)) = (tool("cp"), tool("cmp"), tool("sh")) else { return };
    let Some((mounted, far)) = mounted_with_origin(ASK_ONCE) else { return };
    run(&cp, ["-r", "data/far", "mine"], &mounted.at);
    run(&cmp, [mounted.at.join("mine/long"), far.path().join("long")], &mounted.at);
    let said = run(
        &sh,
        ["-ec", "cat data/far/sub/short; tail -c 3 data/far/long | wc -c; du -s data/far > /dev/null"],
        &mounted.at,
    );
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["words", "3"]);
    // The copy is an own one.
    fs::write(mounted.at.join("mine/long"), b"changed").unwrap();
    fs::remove_dir_all(mounted.at.join("mine")).unwrap();
}

#[test]
fn nothing_can_be_changed() {
    let Some((mounted, far)) = mounted_with_origin(AT_ONCE) else { return };
    fs::create_dir(far.path().join("empty")).unwrap();
    let at = mounted.at.join("data/far");
    let (file, own) = (at.join("sub/short"), mounted.at.join("own"));
    fs::write(&own, b"own").unwrap();
    let refused = |what: &str, result: std::io::Result<()>| {
        let code = result.expect_err(what).raw_os_error();
        assert_eq!(code, Some(Errno::ROFS.raw_os_error()), "{what}: {code:?}");
    };
    refused("open to write", OpenOptions::new().write(true).open(&file).map(drop));
    refused("open to append", OpenOptions::new().append(true).open(&file).map(drop));
    refused("truncate", OpenOptions::new().write(true).truncate(true).open(&file).map(drop));
    refused("create", File::create(at.join("new")).map(drop));
    refused("make a folder", fs::create_dir(at.join("folder")));
    refused("link", symlink("long", at.join("another")));
    refused("remove", fs::remove_file(&file));
    refused("remove a folder", fs::remove_dir(at.join("empty")));
    refused("rename from", fs::rename(&file, mounted.at.join("moved")));
    refused("rename to", fs::rename(&own, at.join("long")));
    refused("rename the prefix", fs::rename(&at, mounted.at.join("elsewhere")));
    refused("change the mode", fs::set_permissions(&file, Permissions::from_mode(0o600)));
    let times = File::open(&file).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH);
    refused("change the times", times);
    let set = rustix::fs::setxattr(&file, "user.a", b"1", rustix::fs::XattrFlags::empty());
    refused("set an attribute", set.map_err(std::io::Error::from));
    assert_eq!(fs::read(far.path().join("sub/short")).unwrap(), b"words\n");
    assert_eq!((fs::read(&own).unwrap(), fs::read(&file).unwrap()), (b"own".to_vec(), b"words\n".to_vec()));
}

#[test]
fn what_changes_there_is_seen_and_open_files_keep_their_version() {
    let Some((mounted, far)) = mounted_with_origin(AT_ONCE) else { return };
    let at = mounted.at.join("data/far");
    let open = File::open(at.join("long")).unwrap();
    let mut part = vec![0; 1000];
    open.read_exact_at(&mut part, 0).unwrap();
    fs::write(far.path().join("new"), b"new").unwrap();
    fs::write(far.path().join("long"), b"shorter").unwrap();
    fs::remove_file(far.path().join("sub/short")).unwrap();
    // The kernel keeps names and attributes for a while, as it does for all files of a mount.
    wait_until("the change is seen", || {
        fs::read(at.join("new")).is_ok_and(|bytes| bytes == b"new")
            && fs::read(at.join("long")).is_ok_and(|bytes| bytes == b"shorter")
            && !at.join("sub/short").exists()
    });
    assert_eq!(names(at), ["link", "long", "new", "sub"]);
    let error = open.read_exact_at(&mut part, 4_000_000).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()));
}
