//! Programs that others wrote use the server: boto3, s3fs, pyarrow, DuckDB, rclone.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Command;

use common::{Served, succeed};
use terrace_testkit::{Missing, noise, skip, wait_until};

#[test]
fn boto3_does_everything_with_objects() {
    let served = Served::new();
    let Some(said) = served.python("objects.py") else { return };
    assert!(said.ends_with("others\n"), "{said}");
    // What the clients asked for is what the store was asked for.
    let bucket = served.store.key_space(b"runs").unwrap();
    let wanted = |name: &[u8]| {
        terrace::PutOptions::kept_with(name, &served.store.stat_name(&bucket, name).unwrap()).unwrap().requirements
    };
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
    if let Some(said) = served.python("tables.py") {
        assert_eq!(said, "files\nparquet\nduckdb_reads\n");
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

/// rclone with the server as its remote `s3:`, and a folder as its `TREE`.
struct Rclone<'s> {
    served: &'s Served,
    tree: PathBuf,
}

impl<'s> Rclone<'s> {
    /// None, with a counted skip, where there is no rclone.
    fn of(served: &'s Served) -> Option<Rclone<'s>> {
        if Command::new("rclone").arg("version").output().is_err() {
            skip("rclone", &Missing::new("s3", "there is no rclone; `make servers` installs it"));
            return None;
        }
        Some(Rclone { served, tree: served.dir.path().join("tree") })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("rclone");
        let endpoint = format!(
            ":s3,provider=Other,env_auth=true,endpoint='{}',chunk_size=5Mi,upload_cutoff=5Mi:",
            self.served.endpoint()
        );
        let tree = self.tree.display().to_string();
        command.args(words.iter().map(|word| word.replace("s3:", &endpoint).replace("TREE", &tree)));
        // No configuration of this machine's user.
        command.args(["--config", "", "--retries", "1"]).env("RCLONE_CONFIG", "/dev/null");
        self.served.with_keys(&mut command);
        command
    }

    fn run(&self, words: &[&str]) -> String {
        succeed(&mut self.command(words))
    }
}

#[test]
fn rclone_copies_a_tree_and_finds_it_equal() {
    let served = Served::new();
    let Some(rclone) = Rclone::of(&served) else { return };
    for (name, length) in [("a", 0), ("b/c d", 70_000), ("b/ü/e", 1), ("long", 12 << 20)] {
        let path = rclone.tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(length, length as u64)).unwrap();
    }
    rclone.run(&["mkdir", "s3:tree"]);
    rclone.run(&["sync", "TREE", "s3:tree/of/files"]);
    rclone.run(&["check", "--download", "TREE", "s3:tree/of/files"]);
    assert_eq!(rclone.run(&["lsf", "-R", "--files-only", "s3:tree/of"]).lines().count(), 4);
    fs::remove_file(rclone.tree.join("a")).unwrap();
    rclone.run(&["sync", "TREE", "s3:tree/of/files"]);
    rclone.run(&["copyto", "s3:tree/of/files/long", "s3:tree/copy"]);
    rclone.run(&["check", "TREE", "s3:tree/of/files"]);
    assert_eq!(rclone.run(&["lsf", "s3:tree"]), "copy\nof/\n");
    rclone.run(&["purge", "s3:tree"]);
    end(served);
}

/// rclone tries odd names, the longest ones and uploads of unknown length, and reports what the server keeps.
#[test]
fn rclone_finds_that_all_names_are_kept() {
    let served = Served::new();
    let Some(rclone) = Rclone::of(&served) else { return };
    rclone.run(&["mkdir", "s3:names"]);
    let report = rclone.tree.with_extension("json");
    rclone.run(&["test", "info", "--all", "--write-json", report.to_str().unwrap(), "s3:names/of"]);
    let report = fs::read_to_string(report).unwrap();
    // Keys have up to 1,024 bytes, and `of/` takes three of them. Names are bytes: no two forms of a letter are the same.
    for found in [
        "\"MaxFileLength\": 1021",
        "\"CanStream\": true",
        "\"CanWriteUnnormalized\": true",
        "\"CanReadRenormalized\": false",
    ] {
        assert!(report.contains(found), "{found} is not in {report}");
    }
    rclone.run(&["test", "makefiles", "--files", "200", "--max-file-size", "64Ki", "--seed", "1", "TREE"]);
    rclone.run(&["sync", "TREE", "s3:names/tree"]);
    rclone.run(&["check", "--download", "TREE", "s3:names/tree"]);
    end(served);
}

/// Programs use the objects of a bucket as files.
#[test]
fn rclone_mounts_a_bucket() {
    let served = Served::new();
    let Some(rclone) = Rclone::of(&served) else { return };
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        skip("rclone mount", &Missing::new("fuse", format!("/dev/fuse: {error}")));
        return;
    }
    rclone.run(&["mkdir", "s3:files"]);
    fs::create_dir(&rclone.tree).unwrap();
    fs::write(rclone.tree.join("short"), "of a program").unwrap();
    // rclone itself does not get along with files that are removed or renamed while it uploads them: these are there already.
    rclone.run(&["copyto", "TREE/short", "s3:files/a/short"]);
    rclone.run(&["moveto", "TREE/short", "s3:files/gone"]);
    let cache = served.dir.path().join("cache");
    let cached = ["--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--dir-cache-time", "0s"];
    let place = ["mount", "s3:files", "TREE", "--cache-dir", cache.to_str().unwrap()];
    let mut mounted = rclone.command(&[&place[..], &cached].concat()).spawn().unwrap();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap();
    wait_until("the bucket is mounted", || mounts().contains(rclone.tree.to_str().unwrap()));
    let path = |name: &str| rclone.tree.join(name);
    fs::write(path("a/long"), noise(12 << 20, 3)).unwrap();
    assert_eq!(fs::read(path("a/short")).unwrap(), b"of a program");
    fs::rename(path("a/short"), path("a/renamed")).unwrap();
    fs::remove_file(path("gone")).unwrap();
    let mut file = fs::File::open(path("a/long")).unwrap();
    file.seek(SeekFrom::Start(7_000_001)).unwrap();
    let mut part = vec![0; 1000];
    file.read_exact(&mut part).unwrap();
    assert!(part == noise(12 << 20, 3)[7_000_001..7_001_001]);
    drop(file);
    succeed(Command::new("fusermount3").arg("-u").arg(&rclone.tree));
    assert!(mounted.wait().unwrap().success());
    assert_eq!(rclone.run(&["lsf", "-R", "--files-only", "s3:files"]), "a/long\na/renamed\n");
    assert_eq!(rclone.run(&["cat", "s3:files/a/renamed"]), "of a program");
    end(served);
}
