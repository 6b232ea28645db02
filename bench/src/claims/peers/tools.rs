//! `terrace put` and `get` of a directory of real files, compared with common backup and copy tools.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::middle;
use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::size::Size;
use crate::timing::time;

/// A tool: the commands that store `data` below `to` and read it back to `out`.
struct Tool {
    name: &'static str,
    /// The program that must be installed.
    program: &'static str,
    /// Shell commands with these names as variables; `new` is not timed.
    new: &'static str,
    store: &'static str,
    read: &'static str,
    /// The guarantees of the tool, and those of ours beside it.
    promises: &'static str,
    ours: &'static [&'static str],
}

const PEER_TOOLS: [Tool; 3] = [
    Tool {
        name: "cp",
        program: "cp",
        new: "mkdir -p $to",
        store: "cp -r $data $to/files",
        read: "cp -r $to/files $out",
        promises: "no checksum, nothing synced; ours: one copy, checksums, nothing waited for",
        ours: &[],
    },
    Tool {
        name: "rclone",
        program: "rclone",
        new: "mkdir -p $to",
        store: "rclone --config= copy $data $to/files",
        read: "rclone --config= copy $to/files $out",
        promises: "hashes compared after copying, nothing synced; ours: one copy, checksums, nothing waited for",
        ours: &[],
    },
    Tool {
        name: "restic",
        program: "restic",
        new: "mkdir -p $to && restic init",
        store: "restic backup $data",
        read: "restic restore latest --target $out",
        promises: "deduplicated, compressed, encrypted, hashed, synced; ours: one copy, encoded, checksums, synced",
        ours: &["--ack", "durable"],
    },
];

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::real("P3", "a directory of real files stored, beside cp", "Store a directory, beside cp (no checksums)"),
    PageRow::real("P3", "a directory of real files read, beside cp", "Read a directory, beside cp"),
    PageRow::real("P3", "a directory of real files read, beside rclone", "Read a directory, beside rclone"),
    PageRow::real(
        "P3",
        "a directory of real files stored, beside restic",
        "Store a directory durably, beside restic (which also encrypts)",
    ),
];

pub fn run() -> Result<Vec<Row>> {
    let Some(data) = std::env::var_os("TERRACE_DATA") else {
        eprintln!("skipped: TERRACE_DATA names no folder of files");
        return Ok(Vec::new());
    };
    let rounds = Size::get().of(2, 5, 9);
    let mut rows = Vec::new();
    for tool in PEER_TOOLS {
        let there = format!("command -v {}", tool.program);
        if !Command::new("sh").args(["-c", &there]).stdout(Stdio::null()).status()?.success() {
            eprintln!("skipped: {} is not installed; `make peers` installs it", tool.program);
            continue;
        }
        let (mut stored, mut read) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let mut seconds = [[0.0; 2]; 2];
            for side in [round % 2, 1 - round % 2] {
                let place = Place::new()?;
                seconds[side] = if side == 0 {
                    ours(&tool, &place, Path::new(&data))?
                } else {
                    theirs(&tool, &place, Path::new(&data))?
                };
            }
            stored.push([seconds[0][0], seconds[1][0]]);
            read.push([seconds[0][1], seconds[1][1]]);
        }
        for (act, pairs) in [("stored", stored), ("read", read)] {
            let [ours, theirs] = middle(pairs);
            let row = Row::new("P3", format!("a directory of real files {act}, beside {}", tool.name), ours, "s");
            rows.push(row.beside(theirs, Better::Lower).details(tool.promises));
        }
    }
    Ok(rows)
}

/// Returns the seconds that `terrace` takes to store and to read, over one directory on disk.
fn ours(tool: &Tool, place: &Place, data: &Path) -> Result<[f64; 2]> {
    let config = place.disk().join("terrace.toml");
    let tier = place.disk().join("tier");
    let tier = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", tier.display());
    std::fs::write(&config, format!("[store]\nreplicas = {{ default = 1 }}\n{tier}"))?;
    let program = std::env::current_exe()?.with_file_name("terrace");
    let terrace = |arguments: &[&Path]| {
        let mut command = Command::new(&program);
        command.arg("--quiet").arg("--store").arg(place.disk().join("store")).args(arguments);
        checked(&mut command)
    };
    terrace(&[Path::new("init"), Path::new("--config"), &config])?;
    let mut put = vec![Path::new("put"), data, Path::new("files/")];
    put.extend(tool.ours.iter().map(Path::new));
    let stored = time(|| terrace(&put))?.0;
    let out = place.disk().join("out");
    let read = time(|| terrace(&[Path::new("get"), Path::new("files/"), &out]))?.0;
    same(data, &out)?;
    Ok([stored, read])
}

/// Returns the seconds that the tool takes.
fn theirs(tool: &Tool, place: &Place, data: &Path) -> Result<[f64; 2]> {
    let (to, out) = (place.disk().join("to"), place.disk().join("out"));
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).env("data", data).env("to", &to).env("out", &out).env("HOME", place.disk());
        checked(command.env("RESTIC_REPOSITORY", &to).env("RESTIC_PASSWORD", "bench").stdout(Stdio::null()))
    };
    shell(tool.new)?;
    let stored = time(|| shell(tool.store))?.0;
    let read = time(|| shell(tool.read))?.0;
    // restic keeps whole paths.
    let came = if tool.program == "restic" { out.join(data.strip_prefix("/").unwrap_or(data)) } else { out };
    same(data, &came)?;
    Ok([stored, read])
}

/// Runs a command that must succeed.
pub fn checked(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Checks that two folders have the same files.
pub fn same(one: &Path, other: &Path) -> Result<()> {
    checked(Command::new("diff").arg("-r").arg(one).arg(other))
}
