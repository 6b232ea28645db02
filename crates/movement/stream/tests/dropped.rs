//! Files of watched directories: no file is removed before it is safe, even if others write to it at the same time.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{settings, store, tree, until};
use terrace::{Ack, Store};
use terrace_stream::destinations::{Destination, Files};
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Error, Settings, Stream};
use terrace_testkit::{Missing, skip};

/// The number of threads that write to files at once.
const WRITER_COUNT: u64 = 8;

fn run(store: &Store, from: &Path, to: &Path, control: &Arc<Control>, watch: &Watch) -> Result<Stream, Error> {
    let stream = Stream::open(store, "s", Ack::Placed).unwrap();
    let destination: Arc<dyn Destination> = Arc::new(Files::new(to).unwrap());
    let settings = Settings { patience: watch.patience, ..settings() };
    stream.run(destination, control)?.with_directory(from, watch)?.go(&settings)?;
    Ok(stream)
}

fn drained() -> Arc<Control> {
    let control = Arc::new(Control::default());
    control.drain();
    control
}

fn quick() -> Watch {
    Watch { settle: Some(Duration::from_millis(50)), patience: Duration::from_millis(200), ..Watch::default() }
}

/// `terrace flush d --to d` copied each file over itself and then removed it; `--to d/sub` delivered its own output
/// again and again. The stream compared paths as text, and took both for two places.
#[test]
fn a_directory_does_not_flow_into_itself_whatever_path_leads_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("d/sub")).unwrap();
    fs::write(at("d/x"), "bytes").unwrap();
    fs::write(at("d/sub/y"), "bytes").unwrap();
    symlink(at("d"), at("link")).unwrap();
    fs::create_dir_all(at("bound")).unwrap();
    let bind = std::process::Command::new("mount").arg("--bind").args([at("d"), at("bound")]).status();
    let is_bound = bind.is_ok_and(|status| status.success());
    if !is_bound {
        skip("directories bound to others", &Missing::new("root", "`mount --bind` fails"));
    }
    let mut pairs = vec![("d", "d"), ("d", "link"), ("link", "d"), ("d", "d/sub"), ("d/sub", "d"), ("link/sub", "d")];
    pairs.extend([("d", "store"), ("d", "disk/new"), ("store", "out"), (".", "../out")]);
    if is_bound {
        pairs.extend([("d", "bound"), ("bound", "d"), ("bound/sub", "d"), ("d", "bound/sub")]);
    }
    let before = tree(&at("d"));
    let refused: Vec<_> = pairs
        .iter()
        .map(|(from, to)| {
            (run(&store, &at(from), &at(to), &drained(), &quick()).err().map(|e| e.to_string()), from, to)
        })
        .collect();
    if is_bound {
        assert!(std::process::Command::new("umount").arg(at("bound")).status().unwrap().success());
    }
    for (error, from, to) in refused {
        assert!(error.as_ref().is_some_and(|e| e.contains("cannot be flushed")), "{from} to {to}: {error:?}");
    }
    assert_eq!(tree(&at("d")), before);
    // A directory with a similar name is accepted.
    run(&store, &at("d"), &at("d-archive"), &drained(), &quick()).unwrap();
    assert_eq!(tree(&at("d-archive")), before);
}

/// Two streams that write into each other's source never end. A stream that empties the destination of another one
/// makes it park.
#[test]
fn running_streams_do_not_feed_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let at = |name: &str| dir.path().join(name);
    ["a", "b"].iter().for_each(|name| fs::create_dir_all(at(name)).unwrap());
    let first = Stream::open(&store, "first", Ack::Placed).unwrap();
    let begin = |stream: &Stream, from: &str, to: &str| {
        let to: Arc<dyn Destination> = Arc::new(Files::new(&at(to)).unwrap());
        stream.run(to, &drained())?.with_directory(&at(from), &quick())
    };
    let running = begin(&first, "a", "b").unwrap();
    let second = Stream::open(&store, "second", Ack::Placed).unwrap();
    for (from, to) in [("b", "a"), ("b", "c"), ("c", "a"), ("a", "c"), ("b/below", "c")] {
        fs::create_dir_all(at(from)).unwrap();
        let error = begin(&second, from, to).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains("\"first\", which runs")), "{from} to {to}: {error:?}");
    }
    drop(running);
    assert!(begin(&second, "b", "c").is_ok());
}

/// A hard link at the destination is the file itself. It was truncated and overwritten, and then its other name was
/// removed.
#[test]
fn a_file_that_is_its_own_destination_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    [&drop, &archive].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    fs::write(drop.join("x"), "bytes").unwrap();
    fs::hard_link(drop.join("x"), archive.join("x")).unwrap();
    let stream = run(&store, &drop, &archive, &drained(), &quick()).unwrap();
    assert!(stream.ledger().all().unwrap()[0].1.parked.as_ref().unwrap().contains("the file itself"));
    assert_eq!(fs::read(drop.join("x")).unwrap(), b"bytes");
    fs::remove_file(archive.join("x")).unwrap();
    // A parked file stayed parked forever, although the next run delivered it.
    run(&store, &drop, &archive, &drained(), &quick()).unwrap();
    assert_eq!(stream.ledger().all().unwrap(), []);
    assert_eq!(stream.done().unwrap().files, 1);
    assert_eq!((tree(&drop).len(), fs::read(archive.join("x")).unwrap()), (0, b"bytes".to_vec()));
}

/// A file was removed after a second of quiet although a process had it open: 500 of 4,000 bytes arrived, without an
/// error. The tests closed each file before the stream saw it.
#[test]
fn files_open_for_writing_stay_until_they_are_closed() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(&drop).unwrap();
    let mut file = File::create(drop.join("open")).unwrap();
    file.write_all(&[1; 500]).unwrap();
    fs::write(drop.join("closed"), "bytes").unwrap();
    // A stream that ends reports the file as left.
    let control = drained();
    run(&store, &drop, &archive, &control, &quick()).unwrap();
    let left = control.left();
    assert_eq!((left.files, left.bytes, control.files_done()), (1, 500, 1));
    assert!(left.stays[0].0.ends_with("/open") && left.stays[0].1.contains("open for writing"), "{left:?}");
    assert_eq!(tree(&archive).into_keys().collect::<Vec<_>>(), ["closed"]);
    // A stream that continues takes the file as soon as it is closed.
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&store, &drop, &archive, &control, &quick()));
        for _ in 0..7 {
            std::thread::sleep(Duration::from_millis(60));
            file.write_all(&[1; 500]).unwrap();
        }
        assert_eq!(tree(&archive).len(), 1);
        std::mem::drop(file);
        until("delivery", || tree(&drop).is_empty());
        control.drain();
        running.join().unwrap().unwrap();
    });
    assert_eq!(fs::read(archive.join("open")).unwrap(), [1; 4000]);
}

/// Writers open each file again and again while it is delivered and removed. Each writes to a name once it has made a
/// file there, and keeps the file open for a while. The last content of each file must therefore be at its destination,
/// or still here.
#[test]
fn writers_that_open_a_file_during_its_removal_lose_nothing() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(&drop).unwrap();
    let rounds = common::number("TERRACE_REMOVALS", 20);
    let control = Arc::new(Control::default());
    let watch = Watch::default();
    let appended = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&store, &drop, &archive, &control, &watch).unwrap());
        let write = |writer: u64| {
            let mut random = common::Random::new(writer + 1);
            let mut appended = 0;
            for round in 0..rounds {
                let path = drop.join(format!("w{writer}-{round}"));
                fs::write(&path, vec![1; 1000]).unwrap();
                // This opens whatever file has the name, at any moment of the removal.
                for part in 0..3 {
                    std::thread::sleep(Duration::from_micros(random.below(80_000)));
                    if let Ok(mut file) = File::options().append(true).open(&path) {
                        file.write_all(&[2 + part; 100]).unwrap();
                        appended += 1;
                    }
                }
            }
            appended
        };
        let writers: Vec<_> = (0..WRITER_COUNT).map(|writer| scope.spawn(move || write(writer))).collect();
        let appended: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        until("the last removal", || tree(&drop).is_empty());
        control.drain();
        running.join().unwrap();
        appended
    });
    let found = tree(&archive);
    let bytes: usize = found.values().map(Vec::len).sum();
    assert_eq!(
        (found.len() as u64, bytes as u64),
        (WRITER_COUNT * rounds, WRITER_COUNT * rounds * 1000 + appended * 100)
    );
    println!("{} files, {appended} appended to while they were flushed: every byte arrived", found.len());
}

/// A file for which its destination has no room was delivered again and again from its beginning: its first part was
/// written each time, and that counted as success.
#[test]
fn a_file_whose_later_part_fails_is_parked() {
    struct Small(Files);
    impl Destination for Small {
        fn length(&self, name: &[u8]) -> terrace_stream::destinations::Outcome<Option<u64>> {
            self.0.length(name)
        }
        fn write(
            &self,
            name: &[u8],
            first: terrace_stream::Position,
            runs: &[terrace_stream::Run],
        ) -> terrace_stream::destinations::Outcome<()> {
            match runs.iter().any(|run| run.end() > 1 << 20) {
                true => Err(terrace_stream::Failure::Later("it is full".into())),
                false => self.0.write(name, first, runs),
            }
        }
        fn set_length(&self, name: &[u8], length: u64) -> terrace_stream::destinations::Outcome<()> {
            self.0.set_length(name, length)
        }
        fn sync(&self, name: &[u8]) -> terrace_stream::destinations::Outcome<()> {
            self.0.sync(name)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let drop = dir.path().join("drop");
    fs::create_dir_all(&drop).unwrap();
    fs::write(drop.join("large"), vec![1; 3 << 20]).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let to = Arc::new(Small(Files::new(&dir.path().join("archive")).unwrap()));
    let settings = Settings { patience: Duration::from_millis(200), ..settings() };
    let control = drained();
    stream.run(to, &control).unwrap().with_directory(&drop, &quick()).unwrap().go(&settings).unwrap();
    let reason = stream.ledger().all().unwrap()[0].1.parked.clone().unwrap();
    assert_eq!(reason, format!("it is full (from directory {} to the destination)", drop.display()));
    assert_eq!((control.left().files, tree(&drop).len()), (1, 1));
}

/// A symbolic link that was renamed into the directory was followed, wherever it led.
#[test]
fn links_and_hidden_files_stay_and_names_of_any_length_flow() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (drop, archive) = (dir.path().join("drop"), dir.path().join("archive"));
    fs::create_dir_all(&drop).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    let long = "n".repeat(255);
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&store, &drop, &archive, &control, &Watch::default()).unwrap());
        until("the run's begin", || archive.exists());
        // A link that was renamed into its place was followed.
        symlink(dir.path().join("secret"), drop.join(".link")).unwrap();
        fs::rename(drop.join(".link"), drop.join("link")).unwrap();
        fs::write(drop.join(".hidden"), "stays").unwrap();
        fs::write(drop.join(&long), "bytes").unwrap();
        until("delivery", || !drop.join(&long).exists());
        control.drain();
        running.join().unwrap();
    });
    assert_eq!(tree(&archive).into_keys().collect::<Vec<_>>(), [long]);
    assert_eq!(tree(&drop).into_keys().collect::<Vec<_>>(), [".hidden"]);
    assert!(drop.join("link").is_symlink());
}
