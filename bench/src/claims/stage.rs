//! `terrace job start` and `job end` beside cp, sync and diff, on many small files and on some large ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::peers::tools::{checked, same};
use crate::oracle::files;
use crate::place::Place;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{median, time};

const SMALL_FILE_COUNT: usize = 3000;
/// The lengths of small files, in turn.
const SMALL_FILE_BYTES: [usize; 5] = [500, 2000, 4000, 8000, 20_000];
const LARGE_FILE_COUNT: usize = 3;
const LARGE_FILE_BYTES: usize = 64 << 20;

const IN_PROMISES: &str =
    "ours: one copy, checksums, compared, not synced; theirs: cp -r and diff -r, nothing synced, compared from memory";
const OUT_PROMISES: &str = "ours: whole files under their names, synced, compared from the device; theirs: cp -r, sync -f and diff -r, compared from \
                            memory";

pub fn run() -> Result<Vec<Row>> {
    let Some(root) = std::env::var_os("TERRACE_DATA") else {
        eprintln!("skipped: TERRACE_DATA names no folder of files");
        return Ok(Vec::new());
    };
    let bytes: Vec<u8> = files(Path::new(&root))?.into_iter().flat_map(|file| file.bytes).collect();
    ensure!(bytes.len() > LARGE_FILE_COUNT, "there are no files in {}", root.display());
    let rounds = Size::get().of(1, 5, 9);
    let mut rows = Vec::new();
    for (what, make) in [
        ("3,000 small files", make_small as fn(&Path, &[u8]) -> Result<()>),
        ("3 files of 64 MiB", make_large as fn(&Path, &[u8]) -> Result<()>),
    ] {
        let data = Place::new()?;
        let data = (data.disk().join("data"), data);
        make(&data.0, &bytes)?;
        let mut seconds = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
        for round in 0..rounds {
            for side in [round % 2, 1 - round % 2] {
                let place = Place::new()?;
                let [took_in, took_out] = if side == 0 { ours(&place, &data.0)? } else { theirs(&place, &data.0)? };
                seconds[side][0].push(took_in);
                seconds[side][1].push(took_out);
            }
        }
        let [ours, theirs] = seconds.map(|acts| acts.map(median));
        for (act, word, promises) in [(0, "in", IN_PROMISES), (1, "out", OUT_PROMISES)] {
            let row = Row::new("stage", format!("{what} {word}"), ours[act], "s");
            rows.push(row.beside(theirs[act], Better::Lower).details(promises));
        }
    }
    Ok(rows)
}

/// Cuts the bytes of real files into small files, in 30 folders.
fn make_small(to: &Path, bytes: &[u8]) -> Result<()> {
    let mut at = 0;
    for number in 0..SMALL_FILE_COUNT {
        let length = SMALL_FILE_BYTES[number % SMALL_FILE_BYTES.len()].min(bytes.len());
        if at + length > bytes.len() {
            at = 0;
        }
        let folder = to.join((number % 30).to_string());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(number.to_string()), &bytes[at..at + length])?;
        at += length;
    }
    Ok(())
}

/// Repeats the bytes of real files, each time from another one on.
fn make_large(to: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(to)?;
    for number in 0..LARGE_FILE_COUNT {
        let from = bytes.len() / LARGE_FILE_COUNT * number;
        let large: Vec<u8> = bytes.iter().cycle().skip(from).take(LARGE_FILE_BYTES).copied().collect();
        fs::write(to.join(number.to_string()), large)?;
    }
    Ok(())
}

/// Returns the seconds that staging in and staging out take, over a store with one directory on disk.
fn ours(place: &Place, data: &Path) -> Result<[f64; 2]> {
    let (config, out) = (place.disk().join("terrace.toml"), place.disk().join("out"));
    let tier = place.disk().join("tier");
    fs::write(&config, format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", tier.display()))?;
    let program = std::env::current_exe()?.with_file_name("terrace");
    let terrace = |arguments: &[&Path]| {
        let mut command = Command::new(&program);
        checked(command.arg("--quiet").arg("--store").arg(place.disk().join("store")).args(arguments))
    };
    let words = |words: &[&'static str]| words.iter().map(|word| PathBuf::from(*word)).collect::<Vec<_>>();
    let run = |command: &[&'static str], path: &Path| {
        let mut all = words(command);
        all.push(path.to_owned());
        terrace(&all.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    };
    run(&["init", "--config"], &config)?;
    sync(place)?;
    let took_in = time(|| run(&["job", "start", "--origin"], data))?.0;
    // Inputs that did not change are no results, unless they are named.
    let list = place.disk().join("list");
    let names: Vec<String> = fs::read_dir(data)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    fs::write(&list, names.join("\n"))?;
    sync(place)?;
    let end = [Path::new("job"), Path::new("end"), Path::new("--save"), &list, Path::new("--to"), &out];
    let took_out = time(|| terrace(&end))?.0;
    same(data, &out)?;
    Ok([took_in, took_out])
}

/// Returns the seconds that cp and diff take to copy in, and with sync to copy out.
fn theirs(place: &Place, data: &Path) -> Result<[f64; 2]> {
    let (store, out) = (place.disk().join("store"), place.disk().join("out"));
    let copy = |from: &Path, to: &Path| checked(Command::new("cp").args(["-r", "--reflink=never"]).arg(from).arg(to));
    sync(place)?;
    let took_in = time(|| {
        copy(data, &store)?;
        same(data, &store)
    })?
    .0;
    sync(place)?;
    let took_out = time(|| {
        copy(&store, &out)?;
        checked(Command::new("sync").arg("-f").arg(&out))?;
        same(&store, &out)
    })?
    .0;
    Ok([took_in, took_out])
}

/// Writes what is left of the step before, so that the next one does not pay for it.
fn sync(place: &Place) -> Result<()> {
    checked(Command::new("sync").arg("-f").arg(place.disk()))
}
