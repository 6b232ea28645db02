//! Programs that others wrote use the server: boto3, s3fs, pyarrow, DuckDB, rclone.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{Served, succeed};
use terrace_testkit::{Missing, noise, skip};

#[test]
fn boto3_does_everything_with_objects() {
    let served = Served::new();
    let Some(said) = served.python("objects.py") else { return };
    assert!(said.ends_with("others\n"), "{said}");
    // What the clients asked for is what the store was asked for.
    let bucket = served.store.key_space(b"runs").unwrap();
    let wanted =
        |name: &[u8]| terrace::PutOptions::kept_with(&served.store.stat_name(&bucket, name).unwrap()).requirements;
    assert_eq!(wanted(b"wanted"), ["max_durability=2".parse().unwrap()]);
    assert_eq!(wanted(b"small"), ["min_storage".parse().unwrap()]);
    // A copy shares the frames of the first.
    let [first, second] = [&b"from"[..], b"to"].map(|name| served.store.locate(&bucket.key(name).unwrap()).unwrap());
    assert_eq!(first.extents[0].replicas[0].position, second.extents[0].replicas[0].position);
    end(served);
}

#[test]
fn boto3_uploads_in_parts() {
    let served = Served::new();
    if served.python("uploads.py").is_some() {
        assert_eq!(served.store.list_uploads(b"").unwrap(), []);
        end(served);
    }
}

#[test]
fn s3fs_pyarrow_and_duckdb_read_and_write_tables() {
    let served = Served::new();
    if served.python("tables.py").is_some() {
        end(served);
    }
}

/// Ends the server, and checks that the store is whole.
fn end(served: Served) {
    let Served { dir, store, server } = served;
    server.end();
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost), (0, 0));
    store.close().unwrap();
    drop(dir);
}

#[test]
fn rclone_copies_a_tree_and_finds_it_equal() {
    if Command::new("rclone").arg("version").output().is_err() {
        skip("rclone", &Missing::new("programs", "rclone is not installed"));
        return;
    }
    let served = Served::new();
    let tree = served.dir.path().join("tree");
    for (name, length) in [("a", 0), ("b/c d", 70_000), ("b/ü/e", 1), ("long", 12 << 20)] {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, noise(length, length as u64)).unwrap();
    }
    let rclone = |words: &[&str]| {
        let mut command = Command::new("rclone");
        let endpoint = format!(
            ":s3,provider=Other,env_auth=true,endpoint='{}',chunk_size=5Mi,upload_cutoff=5Mi:",
            served.endpoint()
        );
        let words =
            words.iter().map(|word| word.replace("s3:", &endpoint).replace("TREE", &tree.display().to_string()));
        // No configuration of this machine's user.
        command.args(words).args(["--config", "", "--retries", "1"]).env("RCLONE_CONFIG", "/dev/null");
        succeed(served.with_keys(&mut command))
    };
    rclone(&["mkdir", "s3:tree"]);
    rclone(&["sync", "TREE", "s3:tree/of/files"]);
    rclone(&["check", "--download", "TREE", "s3:tree/of/files"]);
    assert_eq!(rclone(&["lsf", "-R", "--files-only", "s3:tree/of"]).lines().count(), 4);
    std::fs::remove_file(tree.join("a")).unwrap();
    rclone(&["sync", "TREE", "s3:tree/of/files"]);
    rclone(&["copyto", "s3:tree/of/files/long", "s3:tree/copy"]);
    rclone(&["check", "TREE", "s3:tree/of/files"]);
    assert_eq!(rclone(&["lsf", "s3:tree"]), "copy\nof/\n");
    rclone(&["purge", "s3:tree"]);
    end(served);
}
