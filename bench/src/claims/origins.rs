//! The mean of a Zarr array in a bucket through `terrace::s3://`, compared with s3fs alone and with other caches, in turns.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::place::Place;
use crate::row::{Better, Row};
use crate::size::Size;

/// `make python-released` installs the package here, with xarray, Zarr and s3fs.
const PYTHON_PATH: &str = "target/python/bin/python";

#[derive(Deserialize)]
struct Figure {
    what: String,
    unit: String,
    ours: f64,
    beside: Option<f64>,
    goal: Option<f64>,
    details: String,
}

pub fn run() -> Result<Vec<Row>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = Place::new()?;
    let mebibytes: u64 = Size::get().of(32, 256, 1024);
    let output = Command::new(root.join("..").join(PYTHON_PATH))
        .arg(root.join("python/origins.py"))
        .arg(place.disk())
        .arg(mebibytes.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // What it skips is told there.
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {PYTHON_PATH}; `make python-released` makes it"))?;
    ensure!(output.status.success(), "origins.py: {}", output.status);
    let figures: Vec<Figure> = serde_json::from_slice(&output.stdout)?;
    Ok(figures.into_iter().map(Figure::row).collect())
}

impl Figure {
    /// Makes a row. Times and bytes are better if they are less.
    fn row(self) -> Row {
        let better = if self.unit.ends_with("/s") { Better::Higher } else { Better::Lower };
        let mut row = Row::new("origins", self.what, self.ours, &self.unit).details(self.details);
        if let Some(beside) = self.beside {
            row = row.beside(beside, better);
        }
        if let Some(goal) = self.goal {
            row = row.goal(goal, better);
        }
        row
    }
}
