//! Calls besides reading and writing: free space, holes, fallocate, extended attributes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use common::{Mounted, run, tool};
use rustix::fs::{
    FallocateFlags, SeekFrom, XattrFlags, fallocate, getxattr, listxattr, removexattr, seek, setxattr, statvfs,
};
use rustix::io::Errno;
use terrace::PutOptions;

#[test]
fn free_space_is_the_space_of_the_tiers() {
    let Some(mounted) = Mounted::new() else { return };
    let below = statvfs(mounted.at.parent().unwrap()).unwrap();
    let shown = statvfs(&mounted.at).unwrap();
    let bytes = |system: &rustix::fs::StatVfs, blocks: u64| blocks * system.f_frsize;
    assert!(bytes(&shown, shown.f_blocks) <= bytes(&below, below.f_blocks));
    assert!(shown.f_bavail > 0 && shown.f_bavail <= shown.f_blocks);
    // `df -i` computes the difference with signed numbers.
    assert!(shown.f_ffree > 0 && shown.f_ffree <= shown.f_files && shown.f_files <= shown.f_blocks * 8);
    let file = File::create(mounted.at.join("a")).unwrap();
    file.write_all_at(&vec![7; 8 << 20], 0).unwrap();
    let after = statvfs(&mounted.at).unwrap();
    let used = |system: &rustix::fs::StatVfs| (system.f_blocks - system.f_bfree) * system.f_frsize;
    assert!(used(&after) >= used(&shown) + (1 << 10));
}

#[test]
fn holes_are_made_and_found() {
    let Some(mounted) = Mounted::new() else { return };
    let path = mounted.at.join("a");
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 5) as u8 | 1).collect();
    file.write_all_at(&bytes, 0).unwrap();
    let (start, end) = (1_000_000u64, 2_500_000u64);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file.as_fd(), punch, start, end - start).unwrap();
    let mut expected = bytes.clone();
    expected[start as usize..end as usize].fill(0);
    assert!(fs::read(&path).unwrap() == expected);
    let find = |from| seek(file.as_fd(), from);
    assert_eq!(find(SeekFrom::Hole(0)), Ok(start));
    assert_eq!(find(SeekFrom::Data(start)), Ok(end));
    assert_eq!(find(SeekFrom::Hole(end)), Ok(bytes.len() as u64));
    assert_eq!(find(SeekFrom::Data(bytes.len() as u64)), Err(Errno::NXIO));
    // Beyond the end, punching changes nothing; zeroing a range may extend the file.
    fallocate(file.as_fd(), punch, 5 << 20, 100).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 3 << 20);
    fallocate(file.as_fd(), FallocateFlags::ZERO_RANGE, 3 << 20, 100).unwrap();
    assert_eq!(file.metadata().unwrap().size(), (3 << 20) + 100);
    // Buffered bytes are cleared, too.
    file.write_all_at(b"short", 4 << 20).unwrap();
    fallocate(file.as_fd(), punch, 4 << 20, 3).unwrap();
    let mut read = [1; 5];
    file.read_exact_at(&mut read, 4 << 20).unwrap();
    assert_eq!(&read, b"\0\0\0rt");
    assert_eq!(find(SeekFrom::Data(3 << 20)), Ok((4 << 20) + 3));
}

#[test]
fn cp_sparse_always_keeps_holes() {
    let (Some(cp), Some(mounted)) = (tool("cp"), Mounted::new()) else { return };
    let (from, to) = (mounted.at.join("a"), mounted.at.join("b"));
    let file = File::create(&from).unwrap();
    file.write_all_at(&[1; 5000], 40 << 20).unwrap();
    file.set_len(50 << 20).unwrap();
    run(&cp, ["--sparse=always", "a", "b"], &mounted.at);
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    let copy = File::open(&to).unwrap();
    let data = seek(copy.as_fd(), SeekFrom::Data(0)).unwrap();
    assert!(data > 39 << 20 && data <= 40 << 20, "{data}");
}

#[test]
fn fallocate_extends_files_and_checks_space() {
    let Some(mounted) = Mounted::new() else { return };
    let file = File::create(mounted.at.join("a")).unwrap();
    fallocate(file.as_fd(), FallocateFlags::empty(), 0, 10_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 10_000_000);
    fallocate(file.as_fd(), FallocateFlags::empty(), 0, 5).unwrap();
    fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, 20_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 10_000_000);
    assert_eq!(fallocate(file.as_fd(), FallocateFlags::empty(), 0, 1 << 60), Err(Errno::NOSPC));
    assert_eq!(fallocate(file.as_fd(), FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
}

#[test]
fn extended_attributes_are_the_objects_pairs() {
    let Some(mounted) = Mounted::new() else { return };
    let path = mounted.at.join("a");
    fs::write(&path, b"x").unwrap();
    let mut room = [0; 100];
    let set = |name: &str, value: &[u8], flags| setxattr(&path, name, value, flags);
    set("user.origin", "détecteur 7".as_bytes(), XattrFlags::empty()).unwrap();
    assert_eq!(set("user.origin", b"8", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.other", b"8", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(set("trusted.a", b"8", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(set("user.posix.uid", b"8", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(set("user.binary", &[0xff, 0xfe], XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    assert_eq!(set("user.long", &[b'a'; 20_000], XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    let length = getxattr(&path, "user.origin", &mut room[..]).unwrap();
    assert_eq!(&room[..length], "détecteur 7".as_bytes());
    assert_eq!(getxattr(&path, "user.origin", &mut room[..3]), Err(Errno::RANGE));
    let length = listxattr(&path, &mut room[..]).unwrap();
    assert_eq!(&room[..length], b"user.origin\0");
    let store = mounted.files.store();
    assert_eq!(store.stat(b"a").unwrap().attributes.user["origin"], "détecteur 7");
    // They stay when the bytes, the mode and the name change.
    fs::write(&path, b"xyz").unwrap();
    fs::rename(&path, mounted.at.join("b")).unwrap();
    let path = mounted.at.join("b");
    assert_eq!(getxattr(&path, "user.origin", &mut room[..]), Ok(12));
    removexattr(&path, "user.origin").unwrap();
    assert_eq!(removexattr(&path, "user.origin"), Err(Errno::NODATA));
    assert_eq!(getxattr(&path, "user.origin", &mut room[..]), Err(Errno::NODATA));
    assert_eq!(listxattr(&mounted.at, &mut room[..]), Ok(0));
}

#[test]
fn attributes_ask_for_replicas_and_copies_keep_them() {
    let (Some(setfattr), Some(getfattr)) = (tool("setfattr"), tool("getfattr")) else { return };
    let (Some(cp), Some(rsync), Some(mounted)) = (tool("cp"), tool("rsync"), Mounted::new()) else { return };
    let kept = |name: &[u8]| PutOptions::kept_with(name, &mounted.files.store().stat(name).unwrap()).unwrap();
    fs::write(mounted.at.join("a"), [7; 100_000]).unwrap();
    run(&setfattr, ["-n", "user.terrace.replicas", "-v", "1", "a"], &mounted.at);
    run(&setfattr, ["-n", "user.terrace.require", "-v", "min_storage", "a"], &mounted.at);
    let outside = mounted.at.join("../outside");
    run(&cp, ["-a", "a", "b"], &mounted.at);
    run(&cp, ["-a".as_ref(), "a".as_ref(), outside.as_os_str()], &mounted.at);
    run(&rsync, ["-X".as_ref(), outside.as_os_str(), "c".as_ref()], &mounted.at);
    for name in ["a", "b", "c"] {
        assert_eq!(
            run(&getfattr, ["--only-values", "-n", "user.terrace.require", name], &mounted.at),
            "min_storage",
            "{name}"
        );
        assert_eq!(kept(name.as_bytes()).replicas, Some(1), "{name}");
    }
    // Both copies were short enough to be placed when their attributes were there.
    let location = run(&getfattr, ["--only-values", "-n", "user.terrace.location", "b"], &mounted.at);
    assert!(location.starts_with("0-100000 disk ") && location.lines().count() == 1, "{location}");
    let value = |name: &str, value: &str| setxattr(mounted.at.join("a"), name, value.as_bytes(), XattrFlags::empty());
    assert_eq!(value("user.terrace.replicas", "many"), Err(Errno::INVAL));
    assert_eq!(value("user.terrace.location", "here"), Err(Errno::OPNOTSUPP));
    // A directory asks for what is created in it.
    fs::create_dir(mounted.at.join("d")).unwrap();
    run(&setfattr, ["-n", "user.terrace.ack", "-v", "durable", "d"], &mounted.at);
    fs::write(mounted.at.join("d/f"), b"x").unwrap();
    assert_eq!(run(&getfattr, ["--only-values", "-n", "user.terrace.ack", "d/f"], &mounted.at), "durable");
}

/// The server waited for itself, and nothing but an abort of the connection ended that.
#[test]
fn a_mount_in_the_directory_of_an_origin_is_left_out() {
    let Some(mounted) = Mounted::new() else { return };
    let Some(timeout) = tool("timeout") else { return };
    let (store, above) = (mounted.files.store(), mounted.at.parent().unwrap());
    fs::create_dir_all(above.join("origin/data")).unwrap();
    fs::write(above.join("origin/data/f"), "bytes").unwrap();
    let refused = store.add_origin("mine", mounted.at.to_str().unwrap(), Default::default(), None).unwrap_err();
    assert!(refused.to_string().contains("is in a mount of a store"), "{refused}");
    store.add_origin("above", above.to_str().unwrap(), Default::default(), None).unwrap();
    let listed = run(&timeout, ["20", "ls", "above", "above/origin/data"], &mounted.at);
    assert!(listed.contains("origin\n") && listed.contains("f\n") && !listed.contains("mnt"), "{listed}");
    assert!(fs::metadata(mounted.at.join("above/mnt/above")).is_err());
    assert_eq!(fs::read(mounted.at.join("above/origin/data/f")).unwrap(), b"bytes");
}
