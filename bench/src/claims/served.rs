//! Views through each server, compared with the raw replica through the same server.

#[path = "../../../crates/doors/nine/tests/common/client.rs"]
#[allow(clippy::unwrap_used, dead_code)] // It serves tests, too.
mod client;

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Result, anyhow};
use terrace::Files;
use terrace_datasets::Datasets;
use terrace_mount::{Mount, MountError};
use terrace_nine::{Address, Limits, serve_files};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::timing::{median, time};
use client::{Client, OPEN_READ};

const POINT_COUNT: usize = 4 << 20;
const REQUEST_BYTES: usize = 1 << 20;
const ROUND_COUNT: usize = 5;
const POINTS_DECLARATION: &str = "
dataset { const N = 4194304; var data [N]struct { a, b, c float32 } }
view aos { var data = data }
view soa { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b { var b [] { b } = data }
replica main { view aos }
";
/// The replica, the view that equals it, a view that is not stored, and a part of that view.
const READ_BACK: [&str; 4] = ["datasets/points/main", ".views/points/aos", ".views/points/soa", ".views/points/b"];

/// Reads a whole file through a server. Returns the number of bytes.
type ReadAll<'a> = Box<dyn FnMut(&str) -> Result<usize> + 'a>;

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let store = place.store("served", 0)?;
    let view = Datasets::new(&store).add("points", POINTS_DECLARATION)?.view("aos")?;
    for (part, at) in random_bytes(12 * POINT_COUNT, 3).chunks(REQUEST_BYTES).zip(0..) {
        view.write_at(at * REQUEST_BYTES as u64, part)?;
    }
    drop(view);
    let files = Files::new(&store)?;
    let mut rows = nine(&place, &files)?;
    let at = place.disk().join("mounted");
    fs::create_dir(&at)?;
    match Mount::begin(&files, &at) {
        Ok(_mount) => rows.extend(rows_of("the mount", Box::new(|path| read_file(&at.join(path))), 1.0 / 9.0)?),
        Err(error @ (MountError::NoDevice | MountError::Device(_))) => eprintln!("skipped: {error}"),
        Err(error) => return Err(error.into()),
    }
    Ok(rows)
}

fn nine(place: &Place, files: &Files) -> Result<Vec<Row>> {
    let socket = place.ram().join("nine");
    let _server = serve_files(files, &Address::Unix(socket.clone()), false, Limits::default())?;
    let mut client = Client::unix(&socket)?;
    rows_of("9P", Box::new(move |path| read_nine(&mut client, path)), 1.0 / 15.0)
}

fn read_nine(client: &mut Client, path: &str) -> Result<usize> {
    let mut read = || {
        let fid = client.open(path, OPEN_READ)?;
        let mut length = 0;
        loop {
            match client.read(fid, length as u64, REQUEST_BYTES as u32)?.len() {
                0 => return client.clunk(fid).map(|()| length),
                more => length += more,
            }
        }
    };
    read().map_err(|error: String| anyhow!("{path}: {error}"))
}

fn read_file(path: &Path) -> Result<usize> {
    let (mut file, mut buffer, mut length) = (fs::File::open(path)?, vec![0; REQUEST_BYTES], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(length),
            more => length += more,
        }
    }
}

/// Makes the rows of a server's views; the paper's figure is of the paper's own server.
fn rows_of(server: &str, mut read: ReadAll, papers: f64) -> Result<Vec<Row>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUND_COUNT {
        let mut speeds = [0.0; 4];
        for (speed, path) in speeds.iter_mut().zip(READ_BACK) {
            let (seconds, bytes) = time(|| read(path))?;
            *speed = bytes as f64 / 1e6 / seconds;
        }
        rounds.push(speeds);
    }
    let raw = median(rounds.iter().map(|[raw, ..]| *raw));
    let details = format!("requests of 1 MiB, in memory; the replica itself at {raw:.0} MB/s; middle of {ROUND_COUNT}");
    let row = |what: &str, of: usize| {
        let share = median(rounds.iter().map(|speeds| speeds[of] / speeds[0]));
        let what = format!("{what} by {server}, beside the raw replica by {server}");
        Row::new("V2", what, share, "of its speed").details(&details)
    };
    Ok(vec![
        row("aos read where aos is stored", 1),
        row("soa read where aos is stored", 2).beside(papers, Better::Higher).goal(0.7, Better::Higher),
        row("b alone read where aos is stored", 3),
    ])
}
