//! Programs with the preloaded library see the files of an origin, and cannot change them.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::time::Duration;

use common::Place;
use terrace_testkit::noise;

/// A place whose store shows the directory `far` below `data/far`. Names are asked for once.
fn place_with_origin() -> Place {
    let place = Place::new();
    let far = place.dir.path().join("far");
    fs::create_dir_all(far.join("sub")).unwrap();
    fs::create_dir(far.join("empty")).unwrap();
    fs::write(far.join("long"), noise(5_000_000, 1)).unwrap();
    fs::write(far.join("sub/short"), b"words\n").unwrap();
    let store = place.store();
    store.add_origin("data/far", far.to_str().unwrap(), Default::default(), Some(Duration::from_secs(3600))).unwrap();
    store.close().unwrap();
    place
}

#[test]
fn programs_list_read_and_copy_them() {
    let place = place_with_origin();
    let said = place.sh("
        cd /terrace/data/far; ls; ls sub; cat sub/short; stat -c %s long
        cmp long ~/far/long; dd if=long bs=1000 skip=3000 count=1 status=none | cmp - <(dd if=$HOME/far/long bs=1000 skip=3000 count=1 status=none)
        cp -r /terrace/data/far ~/copy; diff -r ~/far ~/copy; cp -r /terrace/data/far /terrace/mine; diff -r ~/far /terrace/mine
        echo changed > /terrace/mine/long; cat /terrace/mine/long; find /terrace/data -type f | sort
    ");
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "empty",
            "long",
            "sub",
            "short",
            "words",
            "5000000",
            "changed",
            "/terrace/data/far/long",
            "/terrace/data/far/sub/short"
        ]
    );
}

#[test]
fn nothing_can_be_changed() {
    let place = place_with_origin();
    place.python(
        "
import errno, mmap, os, pathlib, shutil
at = pathlib.Path('/terrace/data/far'); file = at / 'sub/short'
pathlib.Path('/terrace/own').write_text('own')
def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == errno.EROFS, (call, arguments, error)
    else:
        raise AssertionError((call, arguments))
for mode in ['w', 'a', 'r+', 'x']:
    refused(open, at / 'new' if mode == 'x' else file, mode)
refused(os.truncate, file, 1); refused(os.mkdir, at / 'folder'); refused(os.symlink, 'long', at / 'link')
refused(os.unlink, file); refused(os.rmdir, at / 'empty'); refused(os.rename, file, '/terrace/moved')
refused(os.rename, '/terrace/own', at / 'long'); refused(os.chmod, file, 0o600); refused(os.utime, file, (1, 1))
refused(os.setxattr, file, 'user.a', b'1')
assert os.access(file, os.R_OK)
assert file.read_text() == 'words\\n' and pathlib.Path('/terrace/own').read_text() == 'own'
with open(at / 'long', 'rb') as long, mmap.mmap(long.fileno(), 0, prot=mmap.PROT_READ) as seen:
    assert seen[:] == open(os.path.expanduser('~/far/long'), 'rb').read()
import numpy
assert (numpy.fromfile(at / 'long', 'u1') == numpy.fromfile(os.path.expanduser('~/far/long'), 'u1')).all()
",
    );
    let output = place.command("rm").args(["/terrace/data/far/long"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Read-only file system"), "{said}");
    assert_eq!(fs::read(place.dir.path().join("far/sub/short")).unwrap(), b"words\n");
}
