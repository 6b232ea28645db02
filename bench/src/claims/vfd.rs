//! Datasets that h5py writes and reads by Terrace's driver for HDF5, compared with HDF5's own driver on tmpfs and on a mount, in pairs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use terrace::{Config, Store};

use super::mount::Mounted;
use crate::place::Place;
use crate::row::{PageRow, Row};
use crate::size::Size;
use crate::timing::median;

/// `make python-installed` installs h5py here.
const PYTHON_PATH: &str = "target/python/bin/python";
/// `make measured` builds the plug-in beside the bench.
const PLUGIN_NAME: &str = "libterrace_hdf5.so";
const PREFIX_PATH: &str = "/terrace";
const PAIR_COUNT: usize = 5;

/// Bytes per second.
#[derive(Deserialize)]
struct Speeds {
    write: f64,
    read: f64,
}

/// A way to the files, and the variables with which a program takes it.
struct Way {
    name: &'static str,
    folder: PathBuf,
    variables: Vec<(&'static str, PathBuf)>,
}

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "vfd",
    "read 4 KiB at any places by h5py, beside sec2 on tmpfs",
    "Read 4 KiB at any places by h5py and the driver: share of HDF5's own on tmpfs",
)];

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let Some(ours) = by_driver(&place)? else { return Ok(Vec::new()) };
    let plain = place.ram().join("plain");
    fs::create_dir(&plain)?;
    let mut others = vec![Way { name: "sec2 on tmpfs", folder: plain, variables: Vec::new() }];
    let mounted = Mounted::new(&place, "ram")?;
    others.extend(mounted.iter().map(|mounted| Way {
        name: "sec2 on a mount",
        folder: mounted.at.clone(),
        variables: Vec::new(),
    }));
    let mut rows = Vec::new();
    for (how, words, mebibytes) in [
        ("chunks", "1 MiB chunks", Size::get().of(64, 256, 256)),
        ("small", "4 KiB at any places", Size::get().of(8, 64, 64)),
    ] {
        rows.extend(compare(&ours, &others, how, words, mebibytes)?);
    }
    Ok(rows)
}

/// Makes a store of one replica in memory for the driver. Returns none and prints why if the plug-in is not built.
fn by_driver(place: &Place) -> Result<Option<Way>> {
    let built = std::env::current_exe()?.with_file_name(PLUGIN_NAME);
    if !built.exists() {
        eprintln!("skipped: {} is not built; `make measured` builds it", built.display());
        return Ok(None);
    }
    let (store, plugins) = (place.ram().join("driven-store"), place.ram().join("plugins"));
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'only'\nkind = 'directory'\ntargets = ['{}']\n",
        place.ram().join("driven-tier").display()
    );
    drop(Store::init(&store, &Config::parse(&text, "bench")?)?);
    fs::create_dir(&plugins)?;
    std::os::unix::fs::symlink(built, plugins.join(PLUGIN_NAME))?;
    let variables = vec![
        ("HDF5_DRIVER", "terrace".into()),
        ("HDF5_PLUGIN_PATH", plugins),
        ("TERRACE_PREFIX", PREFIX_PATH.into()),
        ("TERRACE_STORE", store),
    ];
    Ok(Some(Way { name: "the driver", folder: PREFIX_PATH.into(), variables }))
}

/// Measures all ways in each round, so that none has a quieter machine.
fn compare(ours: &Way, others: &[Way], how: &str, words: &str, mebibytes: u64) -> Result<Vec<Row>> {
    let mut rounds = Vec::new();
    for _ in 0..PAIR_COUNT {
        let own = ours.measure(how, mebibytes)?;
        let beside = others.iter().map(|other| other.measure(how, mebibytes)).collect::<Result<Vec<_>>>()?;
        rounds.push((own, beside));
    }
    let mut rows = Vec::new();
    for (number, other) in others.iter().enumerate() {
        let pairs = |speed: fn(&Speeds) -> f64| -> Vec<[f64; 2]> {
            rounds.iter().map(|(own, beside)| [speed(own), speed(&beside[number])]).collect()
        };
        for (verb, pairs) in [("write", pairs(|speeds| speeds.write)), ("read", pairs(|speeds| speeds.read))] {
            rows.push(share(format!("{verb} {words} by h5py, beside {}", other.name), &pairs, mebibytes));
        }
    }
    Ok(rows)
}

impl Way {
    fn measure(&self, how: &str, mebibytes: u64) -> Result<Speeds> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(root.join("..").join(PYTHON_PATH))
            .arg(root.join("python/hdf5.py"))
            .arg(self.folder.join("measured.h5"))
            .args([how, &mebibytes.to_string()])
            .envs(self.variables.iter().cloned())
            .output()
            .with_context(|| format!("starting {PYTHON_PATH}; `make python-installed` makes it"))?;
        ensure!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Makes a row of the median share of the other's speed, with both median speeds.
fn share(what: String, pairs: &[[f64; 2]], mebibytes: u64) -> Row {
    let [ours, theirs] = [0, 1].map(|side| median(pairs.iter().map(|pair| pair[side])) / 1e6);
    let shares: Vec<String> = pairs.iter().map(|[ours, theirs]| format!("{:.2}", ours / theirs)).collect();
    let share = median(pairs.iter().map(|[ours, theirs]| ours / theirs));
    let details = format!(
        "{ours:.0} MB/s to {theirs:.0} MB/s, closing included; {mebibytes} MiB of noise, one replica in memory; middle of {} pairs: {}",
        pairs.len(),
        shares.join(", ")
    );
    Row::new("vfd", what, share, "of its speed").details(details)
}
