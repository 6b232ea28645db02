//! Puts and gets from Python, compared with plain files and with fsspec's local file system.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::place::Place;
use crate::row::{Better, PageRow, Row};

/// `make python-installed` installs the package here.
const PYTHON_PATH: &str = "target/python/bin/python";

#[derive(Deserialize)]
struct Figure {
    what: String,
    ours: f64,
    beside: f64,
    details: String,
}

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::made("python", "Store.put 4 KiB, beside a plain file", "Put 4 KiB from Python, beside a plain file"),
    PageRow::made("python", "Store.get 4 KiB, beside a plain file", "Get 4 KiB from Python, beside a plain file"),
    PageRow::made("python", "Store.put 1 MiB, beside a plain file", "Put 1 MiB from Python, beside a plain file"),
    PageRow::made("python", "Store.get 1 MiB, beside a plain file", "Get 1 MiB from Python, beside a plain file"),
];

pub fn run() -> Result<Vec<Row>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = Place::new()?;
    let output = Command::new(root.join("..").join(PYTHON_PATH))
        .arg(root.join("python/figures.py"))
        .args([place.ram(), place.disk()])
        .output()
        .with_context(|| format!("starting {PYTHON_PATH}; `make python-installed` makes it"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Vec<Figure> = serde_json::from_slice(&output.stdout)?;
    let row = |figure: Figure| {
        let row = Row::new("python", figure.what, figure.ours, "us");
        row.beside(figure.beside, Better::Lower).details(figure.details)
    };
    Ok(figures.into_iter().map(row).collect())
}
