//! Streams by command line.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::place::Place;

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
    assert_eq!(place.good(dropped), "1 request done\n");
    assert_eq!(fs::read_to_string(place.path("archive/a/file")).unwrap(), "some bytes");
    assert!(!place.path("burst/a/file").exists());
    // The store keeps nothing of it, but tells what was done.
    let (streams, _) = place.json(["flush"]);
    let names: Vec<_> = streams.as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap()).collect();
    assert_eq!((names, streams[1]["seen"]["requests"].as_u64()), (vec!["default", "dropped"], Some(1)));

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
