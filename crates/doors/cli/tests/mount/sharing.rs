//! Mounts beside other processes of the store.

use std::fs;
use std::io::Write;
use std::path::Path;

use rustix::process::Signal;

use crate::place::Place;

fn append(path: &Path, line: &str) {
    fs::File::options().create(true).append(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
}

/// The kernel trusted the length that it knew for a second, and the server obeyed its offset: of lines that two mounts appended half
/// were lost, though each file was closed. All tests had one mount.
#[test]
fn lines_that_two_mounts_append_are_all_there() {
    let Some(place) = Place::new() else { return };
    let second = place.dir.path().join("mnt2");
    fs::create_dir(&second).unwrap();
    let mut mounts = [place.mount(), place.mount_on(&second)];
    let at = [place.mount.clone(), second];
    let words = ["one\n", "two\n", "three\n", "four\n"];
    for (number, word) in words.iter().enumerate() {
        append(&at[number % 2].join("turns"), word);
        for at in &at {
            // Both see at once what was closed.
            let length = words[..=number].concat().len() as u64;
            assert_eq!(fs::metadata(at.join("turns")).unwrap().len(), length);
            assert_eq!(fs::read_to_string(at.join("turns")).unwrap(), words[..=number].concat());
        }
    }
    std::thread::scope(|scope| {
        for (who, at) in at.iter().enumerate() {
            // Two through each mount: one that opens the file for each line, one that keeps it open.
            let path = at.join("race");
            scope.spawn({
                let path = path.clone();
                move || (0..200).for_each(|number| append(&path, &format!("{who} a {number}\n")))
            });
            scope.spawn(move || {
                let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
                (0..200).for_each(|number| file.write_all(format!("{who} b {number}\n").as_bytes()).unwrap());
            });
        }
    });
    let found = fs::read_to_string(at[0].join("race")).unwrap();
    for (who, how) in [(0, 'a'), (0, 'b'), (1, 'a'), (1, 'b')] {
        let start = format!("{who} {how} ");
        let lines: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        assert_eq!(lines, (0..200).map(|number| number.to_string()).collect::<Vec<_>>(), "{start}");
    }
    assert_eq!(found.lines().count(), 800);
    for mounted in &mut mounts {
        mounted.send(Signal::TERM);
        assert_eq!(mounted.ends(), 0);
    }
}

/// The kernel trusts a mount's answers for a moment if nobody else uses the store; a command that changes something waits for its end.
#[test]
fn what_a_command_changes_beside_a_mount_is_seen_at_once() {
    let Some(place) = Place::new() else { return };
    let _mounted = place.mount();
    for length in 1..20 {
        let file = place.dir.path().join("new");
        fs::write(&file, vec![b'x'; length]).unwrap();
        // The kernel is told, and would keep it.
        let _ = fs::metadata(place.mount.join("a"));
        assert!(place.terrace().arg("put").arg(&file).arg("a").output().unwrap().status.success());
        assert_eq!(fs::metadata(place.mount.join("a")).unwrap().len(), length as u64);
    }
}
