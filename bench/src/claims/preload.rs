//! The preload library: bytes and calls on a raw replica in memory, beside a file on tmpfs and the mount, in turns.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use terrace::{Config, Files, Store};
use terrace_mount::{Mount, MountError};

use crate::place::{Place, random_bytes};
use crate::row::{Better, PageRow, Row};
use crate::size::Size;
use crate::timing::{median, time};
use crate::workers;

/// The path below which the library shows the store. Nothing is there on the machine.
const STORE_PREFIX: &str = "/terrace-bench";
const LIBRARY_NAME: &str = "libterrace_preload.so";
/// The number of turns; the median one counts.
const TURN_COUNT: usize = 5;
/// The length of a file that is read and written.
const FILE_BYTES: usize = 64 << 20;
const LONG_REQUEST_BYTES: usize = 1 << 20;
const SHORT_REQUEST_BYTES: usize = 4 << 10;

/// The requests of a process, with or without the library.
#[derive(Clone, Serialize, Deserialize)]
pub struct Work {
    path: PathBuf,
    requests: Requests,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Requests {
    /// Write a new file in requests of this length, and close it.
    Write(usize),
    /// Read a file in requests of this length, for the second time through one handle.
    Read(usize),
    /// Open and close a file so often.
    Open(usize),
    /// Ask for a file's attributes so often.
    Stat(usize),
}

/// Where a process makes its requests.
struct RequestSide {
    path: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::made(
        "preload",
        "read 4 KiB requests again through one handle, beside tmpfs",
        "Read 4 KiB again through the preload library: share of tmpfs's speed",
    ),
    PageRow::made(
        "preload",
        "open and close a file, beside tmpfs",
        "Open and close a file through the preload library, beside tmpfs",
    ),
];

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let library = std::env::current_exe()?.with_file_name(LIBRARY_NAME);
    if !library.exists() {
        eprintln!("skipped: {} is not built", library.display());
        return Ok(Vec::new());
    }
    let root = place.ram();
    let tier = root.join("tier");
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'only'\nkind = 'directory'\ntargets = ['{}']\n",
        tier.display()
    );
    let store = Store::init(&root.join("store"), &Config::parse(&text, "bench")?)?;
    let preloaded: Vec<(&'static str, OsString)> = vec![
        ("LD_PRELOAD", library.into()),
        ("TERRACE_PREFIX", STORE_PREFIX.into()),
        ("TERRACE_STORE", store.dir().as_os_str().to_owned()),
    ];
    let plain = root.join("plain");
    fs::create_dir(&plain)?;
    let mounted = MountedBeside::new(&place)?;
    let side = |folder: &Path, variables: &[(&'static str, OsString)]| RequestSide {
        path: folder.join("file"),
        variables: variables.to_vec(),
    };
    let sides = [
        Some(side(Path::new(STORE_PREFIX), &preloaded)),
        Some(side(&plain, &[])),
        mounted.as_ref().map(|mounted| side(&mounted.at, &[])),
        // A path that is not below the prefix.
        Some(side(&plain, &preloaded)),
    ];
    let measure = |requests| alternate(store.dir(), &sides, requests);
    let (long, short) = (LONG_REQUEST_BYTES, SHORT_REQUEST_BYTES);
    let count = Size::get().of(2_000, 20_000, 20_000);
    Ok(vec![
        speed("write 1 MiB requests to a new file and close it", &measure(Requests::Write(long))?, 0.7),
        speed("write 4 KiB requests to a new file and close it", &measure(Requests::Write(short))?, 0.5),
        speed("read 1 MiB requests again through one handle", &measure(Requests::Read(long))?, 0.8),
        speed("read 4 KiB requests again through one handle", &measure(Requests::Read(short))?, 0.5),
        call("open and close a file", &measure(Requests::Open(count))?, count, 20.0),
        call("stat", &measure(Requests::Stat(count))?, count, 3.0),
    ])
}

/// Another store, mounted.
struct MountedBeside {
    at: PathBuf,
    _mount: Mount,
}

impl MountedBeside {
    /// Returns none, and prints why, if nothing can be mounted.
    fn new(place: &Place) -> Result<Option<MountedBeside>> {
        let at = place.ram().join("mounted");
        fs::create_dir(&at)?;
        let text = format!(
            "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'only'\nkind = 'directory'\ntargets = ['{}']\n",
            place.ram().join("mounted-tier").display()
        );
        let store = Store::init(&place.ram().join("mounted-store"), &Config::parse(&text, "bench")?)?;
        match Mount::begin(&Files::new(&store)?, &at) {
            Ok(mount) => Ok(Some(MountedBeside { at, _mount: mount })),
            Err(error @ (MountError::NoDevice | MountError::Device(_))) => {
                eprintln!("the mount is left out: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the median seconds of each side. The sides take turns in going first.
fn alternate(store: &Path, sides: &[Option<RequestSide>; 4], requests: Requests) -> Result<[Option<f64>; 4]> {
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for turn in 0..TURN_COUNT {
        for at in (0..sides.len()).map(|at| (at + turn) % sides.len()) {
            if let Some(RequestSide { path, variables }) = &sides[at] {
                let work = Work { path: path.clone(), requests };
                seconds[at].extend(workers::run_with(store, &work, variables)?);
            }
        }
    }
    Ok(seconds.map(|seconds| (!seconds.is_empty()).then(|| median(seconds))))
}

/// Makes a row of a share of tmpfs's speed.
fn speed(what: &str, [ours, plain, mounted, _]: &[Option<f64>; 4], goal: f64) -> Row {
    let (ours, plain) = (ours.unwrap_or(f64::NAN), plain.unwrap_or(f64::NAN));
    let rate = |seconds: f64| FILE_BYTES as f64 / 1e6 / seconds;
    let mount = mounted.map_or_else(|| "not measured".to_owned(), |seconds| format!("{:.0} MB/s", rate(seconds)));
    Row::new("preload", format!("{what}, beside tmpfs"), plain / ours, "of its speed").goal(goal, Better::Higher).details(
        format!(
            "{:.0} MB/s to {:.0} MB/s; through the mount {mount}; {} MiB of noise, one raw replica on tmpfs; median of {TURN_COUNT} turns",
            rate(ours),
            rate(plain),
            FILE_BYTES >> 20
        ),
    )
}

/// Makes a row of the time of a call.
fn call(what: &str, [ours, plain, mounted, outside]: &[Option<f64>; 4], count: usize, goal: f64) -> Row {
    let micros = |seconds: &Option<f64>| seconds.unwrap_or(f64::NAN) / count as f64 * 1e6;
    let details = format!(
        "without the library on tmpfs {:.2} µs, with it {:.2} µs; through the mount {:.2} µs; median of {TURN_COUNT} turns of {count}",
        micros(plain),
        micros(outside),
        micros(mounted)
    );
    Row::new("preload", format!("{what}, beside tmpfs"), micros(ours), "µs")
        .beside(micros(plain), Better::Lower)
        .goal(goal, Better::Lower)
        .details(details)
}

impl workers::Work for Work {
    const WORK_NAME: &'static str = "requests";

    // The store is shown by the library, and is not opened here.
    fn work(&self, _: &Path, _: u64, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
        work(self, ready)
    }
}

/// Makes the requests, and returns the seconds that they took.
fn work(work: &Work, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
    let noise = random_bytes(LONG_REQUEST_BYTES, 5);
    let Work { path, requests } = work;
    let write = |length: usize| -> Result<()> {
        let file = File::create(path)?;
        for at in (0..FILE_BYTES).step_by(length) {
            let from = at % noise.len();
            file.write_all_at(&noise[from..from + length], at as u64)?;
        }
        Ok(())
    };
    if let Requests::Write(_) = requests {
        // A new file each time.
        let _ = fs::remove_file(path);
    } else {
        write(LONG_REQUEST_BYTES)?;
    }
    ready()?;
    let (seconds, ()) = match *requests {
        Requests::Write(length) => time(|| write(length))?,
        Requests::Read(length) => {
            let file = File::open(path)?;
            let mut buffer = vec![0; length];
            let mut read = || {
                let mut each = (0..FILE_BYTES).step_by(length);
                each.try_for_each(|at| file.read_exact_at(&mut buffer, at as u64)).map_err(anyhow::Error::from)
            };
            read()?;
            time(read)?
        }
        Requests::Open(count) => time(|| (0..count).try_for_each(|_| Ok(File::open(path).map(drop)?)))?,
        Requests::Stat(count) => time(|| (0..count).try_for_each(|_| Ok(fs::metadata(path).map(drop)?)))?,
    };
    Ok(vec![seconds])
}
