//! Terrace compared with its alternatives: the same bytes, tiers and calls, both sides in one run.

pub mod tools;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::size::Size;
use crate::timing::{Times, median};

/// The guarantees of each side when a put returns.
const PUT_PROMISES: &str =
    "ours: both copies written, checksummed, logged; IOWarp (num_replicas 1): both copies written, flushed each second";

/// The paths below the repository that `make python-installed` and `make peers` install to.
const OUR_PYTHON: &str = "target/python/bin/python";
const IOWARP_PYTHON: &str = "target/peers/iowarp/bin/python";

/// Options of `unshare` for a network that nobody else can connect to.
const NAMESPACE_OPTIONS: [&str; 3] = ["--user", "--map-root-user", "--net"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Finds the programs of both sides. Returns `None` and prints why if IOWarp is missing.
fn sides() -> Result<Option<[Side; 2]>> {
    ensure!(root().join(OUR_PYTHON).exists(), "{OUR_PYTHON} is missing; `make python-installed` makes it");
    if !root().join(IOWARP_PYTHON).exists() {
        eprintln!("skipped: IOWarp is not installed; `make peers` installs it");
        return Ok(None);
    }
    let sides = [Side { peer: "ours", python: OUR_PYTHON }, Side { peer: "iowarp", python: IOWARP_PYTHON }];
    let apart = Command::new("unshare").args(NAMESPACE_OPTIONS).args(["ip", "link", "set", "lo", "up"]).output();
    if !apart.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network namespace can be made here, and IOWarp listens on all addresses");
        return Ok(None);
    }
    Ok(Some(sides))
}

struct Side {
    peer: &'static str,
    python: &'static str,
}

impl Side {
    /// Makes a command for the peer in a network of its own, since one of its ports listens on all addresses.
    fn command(&self, role: &str, folders: &[&Path]) -> Command {
        let door = root().join("bench/peers/door.py");
        let mut command = Command::new("unshare");
        command.args(NAMESPACE_OPTIONS).args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
        command.arg(root().join(self.python)).arg("-B").arg(door).args([self.peer, role]).args(folders);
        command
    }

    /// Runs a role to its end.
    fn ask<T: DeserializeOwned>(&self, role: &str, place: &Place, more: &[String]) -> Result<T> {
        let output = self.command(role, &[place.ram(), place.disk()]).args(more).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {errors}", self.peer);
        let text = String::from_utf8(output.stdout)?;
        let last = text.lines().last().with_context(|| format!("{} said nothing: {errors}", self.peer))?;
        serde_json::from_str(last).with_context(|| format!("{} said {last:?}", self.peer))
    }
}

/// A side that answers with times.
struct Door {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    _place: Place,
}

impl Door {
    fn open(side: &Side) -> Result<Door> {
        let place = Place::new()?;
        let mut command = side.command("speeds", &[place.ram(), place.disk()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (input, Some(output)) = (child.stdin.take(), child.stdout.take()) else { bail!("no pipes") };
        let mut door = Door { child, input, output: BufReader::new(output), _place: place };
        let said = door.line()?;
        ensure!(said.trim() == "ready", "{} said {said:?}", side.peer);
        Ok(door)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn times(&mut self, act: &str, count: usize, size: usize) -> Result<Vec<f64>> {
        let input = self.input.as_mut().context("closed")?;
        writeln!(input, "{act} {count} {size}")?;
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))
    }

    fn close(mut self) -> Result<()> {
        drop(self.input.take());
        self.child.wait()?;
        Ok(())
    }
}

pub const SPEED_PAGE_ROWS: &[PageRow] = &[
    PageRow::made("P1", "put of 4 KiB with a second copy", "Put 4 KiB with a second copy from Python, beside IOWarp"),
    PageRow::made("P1", "get of 4 KiB with a second copy", "Get 4 KiB from Python, beside IOWarp"),
];

/// Compares puts and gets, in turn.
pub fn speeds() -> Result<Vec<Row>> {
    let Some(sides) = sides()? else { return Ok(Vec::new()) };
    let mut doors = [Door::open(&sides[0])?, Door::open(&sides[1])?];
    let rounds = Size::get().of(2, 5, 9);
    let mut rows = Vec::new();
    for (size, count, words) in [(4 << 10, 100, "4 KiB"), (64 << 10, 100, "64 KiB"), (1 << 20, 40, "1 MiB")] {
        for act in ["put", "get"] {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                for side in [round % 2, 1 - round % 2] {
                    times[side].extend(doors[side].times(act, count, size)?);
                }
            }
            let [ours, theirs] =
                times.map(|times| Times::new(times.into_iter().map(|seconds| seconds * 1e6).collect()));
            let details = format!("p90 {:.0} and {:.0} us; {PUT_PROMISES}", ours.quantile(0.9), theirs.quantile(0.9));
            let row = Row::new("P1", format!("{act} of {words} with a second copy"), ours.median(), "us");
            rows.push(row.beside(theirs.median(), Better::Lower).goal(theirs.median(), Better::Lower).details(details));
        }
    }
    doors.into_iter().try_for_each(Door::close)?;
    Ok(rows)
}

#[derive(Deserialize)]
struct Found {
    right: u64,
    wrong: u64,
    unreadable: u64,
    #[serde(default)]
    damaged: u64,
}

/// Each test puts this many objects of this length, and damages some of them.
const OBJECT_COUNT: usize = 200;
const OBJECT_BYTES: usize = 64 << 10;
const DAMAGED_COUNT: usize = 20;

pub const DAMAGE_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "P2",
    "objects read wrong, one of whose two copies was changed on the tier in memory",
    "Of 20 objects with one damaged copy, read wrong; beside IOWarp",
)];

/// Compares losses after a kill and after damage.
pub fn damage() -> Result<Vec<Row>> {
    let Some(sides) = sides()? else { return Ok(Vec::new()) };
    let runs = Size::get().of(1, 3, 10);
    let numbers = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut lost = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (side, lost) in sides.iter().zip(&mut lost) {
            let found: Found = side.ask("lost", &Place::new()?, &numbers(&[OBJECT_COUNT, OBJECT_BYTES]))?;
            lost.push((found.wrong + found.unreadable) as f64);
        }
    }
    let details = format!(
        "{OBJECT_COUNT} of 64 KiB, killed when the last put had returned; runs: ours {:?}, theirs {:?}",
        lost[0], lost[1]
    );
    let [ours, theirs] = lost.map(|lost| lost.into_iter().fold(0.0, f64::max));
    let row = Row::new("P2", "acknowledged puts lost by kill -9, at most", ours, "objects");
    let mut rows = vec![Row { paper: Some(theirs), ..row.goal(0.0, Better::Lower) }.details(details)];
    for tier in ["memory", "disk"] {
        let mut wrong = Vec::new();
        for side in &sides {
            let place = Place::new()?;
            let at = if tier == "memory" { place.ram() } else { place.disk() }.join("tier");
            let more = [vec![at.display().to_string()], numbers(&[OBJECT_COUNT, OBJECT_BYTES, DAMAGED_COUNT])].concat();
            wrong.push(side.ask::<Found>("flipped", &place, &more)?);
        }
        let words = |found: &Found| {
            format!(
                "{} right, {} unreadable of {} with {} damaged",
                found.right, found.unreadable, OBJECT_COUNT, found.damaged
            )
        };
        let details = format!("ours {}; theirs {}", words(&wrong[0]), words(&wrong[1]));
        let what = format!("objects read wrong, one of whose two copies was changed on the tier in {tier}");
        let row = Row::new("P2", what, wrong[0].wrong as f64, "objects").goal(0.0, Better::Lower);
        rows.push(Row { paper: Some(wrong[1].wrong as f64), ..row }.details(details));
    }
    Ok(rows)
}

/// Returns the medians of ours and of theirs.
fn middle(pairs: Vec<[f64; 2]>) -> [f64; 2] {
    [0, 1].map(|side| median(pairs.iter().map(|pair| pair[side])))
}
