//! Tests the server with an independent implementation of the protocol: the client of the crate `ninep`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Served, bytes};
use ninep::fs::{Mode, Perm};
use ninep::sync::client::Client;
use terrace_datasets::Datasets;

#[test]
fn an_independent_client_works() {
    let served = Served::new();
    let declaration = "dataset { var m [3, 5]int16 }\nview m { var m = m }\n\
                       view turned { var m [i, j] = m[j, i] }\nreplica main { view m }";
    Datasets::new(served.files.store()).add("matrix", declaration).unwrap();
    let client = Client::new_unix_with_explicit_path("tester", &served.socket, "").unwrap();
    // The client keeps a fid for each path and opens it again, which the manual forbids.
    let closed = |path: &str| client.clunk_path(path).unwrap();
    client.create("/", "folder", Perm::DIRECTORY | Perm::OWNER_READ | Perm::OWNER_EXEC, Mode::READ).unwrap();
    closed("/folder");
    client.create("/folder", "file", Perm::OWNER_READ | Perm::OWNER_WRITE, Mode::READ_WRITE).unwrap();
    closed("/folder/file");
    let data = bytes(3 << 20, 5);
    assert_eq!(client.write("/folder/file", 0, &data).unwrap(), data.len());
    closed("/folder/file");
    assert!(client.read("/folder/file").unwrap() == data);
    closed("/folder/file");
    assert_eq!(client.read_from("/folder/file", 1000, 10).unwrap(), &data[1000..1010]);
    assert_eq!(client.stat("/folder/file").unwrap().n_bytes, data.len() as u64);
    let names = |path: &str| -> Vec<String> {
        let names = client.read_dir(path).unwrap().into_iter().map(|stat| stat.name).collect();
        closed(path);
        names
    };
    assert_eq!(names("/folder"), ["file"]);
    assert_eq!(names("/.views/matrix"), ["m", "turned"]);
    let values: Vec<u8> = (0..15i16).flat_map(i16::to_le_bytes).collect();
    assert_eq!(client.write("/.views/matrix/m", 0, &values).unwrap(), 30);
    let turned: Vec<u8> = (0..5).flat_map(|i| (0..3).flat_map(move |j| (j * 5 + i as i16).to_le_bytes())).collect();
    assert_eq!(client.read("/.views/matrix/turned").unwrap(), turned);
    client.remove("/folder/file").unwrap();
    assert!(names("/folder").is_empty());
    assert!(client.stat("/nothing").is_err());
}
