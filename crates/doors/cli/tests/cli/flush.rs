//! Streams by command line.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::place::{Place, noise, ran};

/// A framed append, as docs/guide/flush.md has it.
fn frame(destination: &str, producer: &str, sequence: u64, bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"tfr1".to_vec();
    frame.extend((destination.len() as u16).to_le_bytes());
    frame.extend((producer.len() as u16).to_le_bytes());
    frame.extend((bytes.len() as u32).to_le_bytes());
    frame.extend(1u32.to_le_bytes());
    frame.extend(0u64.to_le_bytes());
    frame.extend(sequence.to_le_bytes());
    [&frame, destination.as_bytes(), producer.as_bytes(), bytes].concat()
}

#[test]
fn framed_requests_and_dropped_files_flow_to_an_archive() {
    let place = Place::new();
    assert_eq!(place.good(["flush"]), "no stream flows here, and nothing waits to be flushed\n");
    let send = |bytes: &[u8]| {
        let mut command = place.command(["flush", "-", "--to", "archive"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        child.wait_with_output().unwrap()
    };
    let all = [frame("north/wind", "s", 1, b"12 m/s\n"), frame("north/wind", "s", 2, b"9 m/s\n")].concat();
    // The second time all of it is known.
    for words in ["2 requests done\n", "0 requests done\n"] {
        let output = send(&all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), words);
        assert_eq!(fs::read_to_string(place.path("archive/north/wind")).unwrap(), "12 m/s\n9 m/s\n");
    }
    let output = send(b"tfr1 and nonsense, which is no request");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("byte 0 of the input begins no request"));

    place.write("burst/a/file", "some bytes");
    place.bad(["flush", "burst", "--to", "dir:archive"], &["dir: is nothing that can be flushed to", "./dir:archive"]);
    let dropped = ["flush", "burst", "--to", "archive", "--once", "--stream", "dropped"];
    assert_eq!(place.good(dropped), "1 file done\n");
    assert_eq!(fs::read_to_string(place.path("archive/a/file")).unwrap(), "some bytes");
    assert!(!place.path("burst/a/file").exists());
    // The store keeps nothing of it, but tells what was done.
    let (streams, _) = place.json(["flush"]);
    let names: Vec<_> = streams.as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap()).collect();
    assert_eq!((names, streams[1]["done"]["files"].as_u64()), (vec!["default", "dropped"], Some(1)));

    // A folder where a file should be: parked, told, and tried again.
    fs::create_dir_all(place.path("archive/folder")).unwrap();
    let output = send(&frame("folder", "s", 3, b"waits"));
    assert_eq!(output.status.code(), Some(1));
    let (streams, code) = place.json(["flush"]);
    assert_eq!((streams[0]["parked"][0]["destination"].as_str(), code), (Some("folder"), 1));
    assert_eq!(streams[0]["backlog"].as_u64(), Some(1));
    let (status, _) = place.json(["status"]);
    assert_eq!(status["streams"][0]["parked"], streams[0]["parked"]);
    assert!(place.good(["ls"]).is_empty(), "what streams keep is listed");
    fs::remove_dir(place.path("archive/folder")).unwrap();
    assert_eq!(String::from_utf8_lossy(&send(b"").stdout), "1 request done\n");
    assert_eq!(fs::read_to_string(place.path("archive/folder")).unwrap(), "waits");
    place.bad(["flush", "burst"], &["say where to with --to"]);
}

/// Reading went on behind a bad frame, and what looked like a request there was taken.
#[test]
fn a_bad_frame_ends_the_reading_and_what_came_before_arrives() {
    let place = Place::new();
    let input = [frame("d", "s", 1, b"good "), vec![0; 32], frame("d", "s", 2, b"behind it")].concat();
    fs::write(place.path("input"), input).unwrap();
    let mut command = place.command(["flush", "-", "--to", "archive"]);
    let output = command.stdin(fs::File::open(place.path("input")).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("byte 39 of the input begins no request"));
    assert_eq!(place.read("archive/d"), b"good ");
}

#[test]
fn a_directory_is_not_flushed_into_itself_and_nothing_is_made_or_removed() {
    let place = Place::new();
    place.write("d/x", "bytes");
    for to in ["d", "d/sub", ".", "store/x", "tiers/disk"] {
        place.bad(["flush", "d", "--to", to, "--once"], &["cannot be flushed"]);
    }
    place.bad(["flush", "d", "d", "--to", "archive", "--once"], &["it is the source"]);
    place.bad(["flush", "store", "--to", "archive", "--once"], &["the store keeps its own files"]);
    assert_eq!(place.read("d/x"), b"bytes");
    assert_eq!(fs::read_dir(place.path("d")).unwrap().count(), 1);
    assert!(!place.path("archive").exists());
}

/// A destination that was given up could only be delivered to; nothing could be tried again, thrown away or forgotten.
#[test]
fn what_is_parked_is_tried_again_thrown_away_or_forgotten() {
    let place = Place::new();
    let send = |bytes: &[u8]| {
        fs::write(place.path("input"), bytes).unwrap();
        let mut command = place.command(["flush", "-", "--to", "archive"]);
        command.stdin(fs::File::open(place.path("input")).unwrap()).output().unwrap().status.code()
    };
    let status = || {
        let (streams, code) = place.json(["flush"]);
        let stream = &streams[0];
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        (
            stream["parked"].as_array().unwrap().len(),
            number(&stream["backlog"]),
            number(&stream["done"]["requests"]),
            code,
        )
    };
    fs::create_dir_all(place.path("archive/folder")).unwrap();
    // A page of five requests; two of them wait.
    let all = ["a", "folder", "b", "folder", "a"].iter().zip(1..).map(|(to, n)| frame(to, "s", n, b"12345"));
    assert_eq!(send(&all.collect::<Vec<_>>().concat()), Some(1));
    assert_eq!(status(), (1, 2, 3, 1));
    place.bad(["flush", "--retry"], &["name the destinations"]);
    place.bad(["flush", "--drop", "nobody"], &["knows no destination nobody"]);
    assert_eq!(place.good(["flush", "--retry", "folder"]), "1 destination will be tried again by the next run\n");
    assert_eq!(status(), (0, 2, 3, 0));
    assert_eq!(send(b""), Some(1));
    let dropped = place.good(["flush", "--drop", "--all"]);
    assert_eq!(dropped, "folder: 2 requests, 10 B, thrown away\n");
    assert_eq!(status(), (0, 0, 3, 0));
    // Its producer sends again what was thrown away, which is known; what is new arrives.
    fs::remove_dir(place.path("archive/folder")).unwrap();
    let again = [frame("folder", "s", 2, b"12345"), frame("folder", "s", 6, b"new")].concat();
    assert_eq!(send(&again), Some(0));
    assert_eq!(place.read("archive/folder"), b"new");
    // A file that became shorter is parked until it is forgotten how long it was.
    fs::write(place.path("archive/a"), "cut").unwrap();
    assert_eq!(send(&frame("a", "s", 7, b" and on")), Some(1));
    assert_eq!(place.good(["flush", "--forget", "a"]), "it is forgotten how far 1 destination got\n");
    assert_eq!(send(b""), Some(0));
    assert_eq!(place.read("archive/a"), b"cut and on");
    assert_eq!(status(), (0, 0, 5, 0));
}

/// The guide said that a missing directory is waited for. A mistyped name should not take an hour to be told of.
#[test]
fn a_directory_that_is_missing_at_the_start_is_an_error_at_once() {
    let place = Place::new();
    let missing = ["flush", "mistyped", "--to", "archive", "--once", "--patience", "1h"];
    place.bad(missing, &["mistyped", "No such file or directory"]);
}

/// A file that was parked and then removed at its source made each later run exit with 1, also those of other sources and
/// destinations, and nothing said whose it was.
#[test]
fn what_an_earlier_run_parked_is_a_note_and_no_failure_of_others() {
    let place = Place::new();
    place.write("burst/folder", "bytes");
    place.write("other/a", "bytes");
    fs::create_dir_all(place.path("archive/folder")).unwrap();
    let first = ["flush", "burst", "--to", "archive", "--once"];
    // The second run tries it again, so it is that run's, too.
    for _ in 0..2 {
        let ran = place.run(first);
        assert_eq!((ran.code, ran.out.contains("1 destination parked")), (1, true), "{}{}", ran.out, ran.err);
    }
    let (streams, code) = place.json(["flush"]);
    let reason = streams[0]["parked"][0]["reason"].as_str().unwrap();
    let at = |name: &str| fs::canonicalize(place.path(name)).unwrap();
    let route = format!("(from directory {} to {})", at("burst").display(), at("archive").display());
    assert!(code == 1 && reason.contains("not a regular file") && reason.ends_with(&route), "{reason}");
    let shown = place.run(["flush"]).out;
    assert!(shown.contains("parked in default: folder: ") && shown.contains("--drop NAME` gives it up"), "{shown}");
    fs::remove_file(place.path("burst/folder")).unwrap();
    for others in [first, ["flush", "other", "--to", "elsewhere", "--once"]] {
        let ran = place.run(others);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("1 destination parked by earlier runs"), "{}", ran.err);
    }
    assert_eq!(place.read("elsewhere/a"), b"bytes");
    place.good(["flush", "--drop", "folder"]);
    assert_eq!(place.run(first).err, "");
    assert_eq!(place.json(["flush"]).1, 0);
}

/// `--retry` removes the mark of a destination that got nothing yet. After it, `--drop` and `--forget` did not know the destination,
/// although a request waited for it. Each test dropped before it retried, or parked again in between.
#[test]
fn what_was_retried_can_be_dropped() {
    let place = Place::new();
    fs::create_dir_all(place.path("archive/folder")).unwrap();
    fs::write(place.path("input"), frame("folder", "s", 1, b"12345")).unwrap();
    let mut command = place.command(["flush", "-", "--to", "archive"]);
    let output = command.stdin(fs::File::open(place.path("input")).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    place.good(["flush", "--retry", "folder"]);
    assert_eq!(place.good(["flush", "--drop", "folder"]), "folder: 1 request, 5 B, thrown away\n");
    assert_eq!(place.json(["flush"]).0[0]["backlog"], 0);
    place.bad(["flush", "--drop", "nobody"], &["knows no destination nobody"]);
}

#[test]
fn logs_are_followed_and_stay() {
    let place = Place::new();
    place.write("logs/a", "one ");
    let follow = ["flush", "logs", "--to", "archive", "--tail", "--once"];
    assert_eq!(place.good(follow), "1 request done\n");
    place.write("logs/a", "one two ");
    assert_eq!(place.good(follow), "1 request done\n");
    assert_eq!(place.good(follow), "0 requests done\n");
    assert_eq!((place.read("archive/a"), place.read("logs/a")), (b"one two ".to_vec(), b"one two ".to_vec()));
}

/// Where the system grants no leases, as on network file systems, processes are asked which files they write to.
#[test]
fn what_is_open_for_writing_stays_where_no_lease_tells_so_too() {
    let place = Place::new();
    for n in 0..20 {
        place.write(format!("d/f{n}"), "bytes");
    }
    let open = fs::File::options().append(true).open(place.path("d/f0")).unwrap();
    let flush = || {
        let mut command = place.command(["flush", "d", "--to", "archive", "--once", "--settle", "100ms"]);
        command.env("TERRACE_LEASES", "0").output().unwrap()
    };
    let output = flush();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "19 files done; 1 file left: `terrace flush` says why\n");
    assert_eq!((output.status.code(), place.path("d/f0").exists()), (Some(1), true));
    drop(open);
    assert!(flush().status.success());
    assert_eq!(place.read("archive/f0"), b"bytes");
}

/// A process was killed in the middle of a file, which was then renamed, replaced or removed: the next run left a part of it under
/// its final name, with exit code 0.
#[test]
fn of_a_file_that_is_gone_after_a_kill_no_part_has_its_name() {
    let big = noise(24 << 20, 1);
    let hidden = |name: &str| name.rsplit('/').next().is_some_and(|last| last.starts_with('.'));
    for point in ["stream:written", "stream:written@2", "stream:synced@2"] {
        for to in ["archive", "key:kept"] {
            for before in [None, Some("what was there before")] {
                let place = Place::new();
                let flush = ["flush", "burst", "--to", to, "--once", "--settle", "50ms"];
                if let Some(old) = before {
                    place.write("burst/run/a", old);
                    place.good(flush);
                }
                place.write("burst/run/a", &big);
                let died = ran(place.command(flush).env("TERRACE_FAIL_POINT", point).output().unwrap());
                assert_ne!(died.code, 0, "{point} was not passed");
                let delivered = || {
                    let out = place.path("out");
                    let _ = fs::remove_dir_all(&out);
                    if to == "archive" {
                        return place.path("archive");
                    }
                    place.good(["get", "kept", "out"]);
                    out
                };
                let names = |root: &Path| -> Vec<String> {
                    let files = walkdir::WalkDir::new(root).into_iter().flatten().filter(|e| e.file_type().is_file());
                    let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
                    files.map(|e| name(e.path())).filter(|name| !hidden(name)).collect()
                };
                if to == "archive" || before.is_some() {
                    let root = delivered();
                    let shown: Vec<Vec<u8>> =
                        names(&root).iter().map(|name| fs::read(root.join(name)).unwrap()).collect();
                    let expected: Vec<Vec<u8>> = before.iter().map(|old| old.as_bytes().to_vec()).collect();
                    assert!(shown == expected, "{point} {to}: {} files", shown.len());
                }
                fs::rename(place.path("burst/run/a"), place.path("burst/run/b")).unwrap();
                place.write("burst/small", "x");
                place.good(flush);
                let root = delivered();
                let mut expected = vec!["run/b", "small"];
                expected.extend(before.map(|_| "run/a"));
                let mut found = names(&root);
                found.sort();
                expected.sort_unstable();
                assert_eq!(found, expected, "{point} {to}");
                assert!(fs::read(root.join("run/b")).unwrap() == big);
                if let Some(old) = before {
                    assert_eq!(fs::read_to_string(root.join("run/a")).unwrap(), old);
                }
                // A file that takes the name again takes the place of what was left.
                place.write("burst/run/a", "short");
                place.good(flush);
                let root = delivered();
                assert_eq!(fs::read_to_string(root.join("run/a")).unwrap(), "short");
                let all =
                    walkdir::WalkDir::new(&root).into_iter().flatten().filter(|e| e.file_type().is_file()).count();
                assert_eq!(all, 3, "{point} {to}: nothing hidden is left");
            }
        }
    }
}

/// Files of one name in two directories were written over each other, and both were removed.
#[test]
fn of_two_directories_files_of_one_name_stay_apart_and_one_can_be_let_replace_the_other() {
    let place = Place::new();
    for source in ["a", "b"] {
        place.write(format!("{source}/x"), source.repeat(100_000));
    }
    let flush = ["flush", "a", "b", "--to", "archive", "--once", "--settle", "50ms"];
    // Which of the two goes first is not promised.
    let ran = place.run(flush);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (1, "1 file done; 1 file left: `terrace flush` says why\n"),
        "{}",
        ran.err
    );
    let (first, other) = if place.path("b/x").exists() { ("a", "b") } else { ("b", "a") };
    assert_eq!(place.read("archive/x"), first.repeat(100_000).into_bytes());
    assert_eq!(place.read(format!("{other}/x")), other.repeat(100_000).into_bytes());
    let ran = place.run(["flush"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains(&format!("{other}/x: ")) && ran.out.contains(&format!("/{first}/x goes to")),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("`terrace flush --stream default --forget x`"), "{}", ran.out);
    place.bad(["flush", "--forget", "y"], &["knows no destination y"]);
    place.good(["flush", "--forget", "x"]);
    assert_eq!(place.good(flush), "1 file done\n");
    assert_eq!(place.read("archive/x"), other.repeat(100_000).into_bytes());
}
