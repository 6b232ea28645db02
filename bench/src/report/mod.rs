//! Writes docs/benchmarks.json with all rows, and docs/benchmarks.md and the plots with the rows that claims put on the
//! page.

mod bars;
mod page;
mod ratios;

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::claims::{ALL_MEASUREMENTS, Measurement};
use crate::row::Row;

/// The claim whose bars the page shows, and the title of that plot.
const SHOWN_BARS: (&str, &str) = ("C7", "writing and reading, times quicker than no replication");

/// Merges rows into docs/benchmarks.json, and renders the page. Rows of claims that were not measured this time stay.
pub fn write(folder: &Path, rows: &[Row]) -> Result<()> {
    let json = folder.join("benchmarks.json");
    let old = if json.exists() { read(&json)? } else { Vec::new() };
    let mut all: Vec<Row> =
        old.into_iter().filter(|o| rows.iter().all(|r| r.id != o.id)).chain(rows.iter().cloned()).collect();
    all.sort_by_key(|row| (section(row), row.point.is_some(), row.id.clone()));
    std::fs::write(&json, serde_json::to_string_pretty(&all)? + "\n")?;
    render(folder)
}

/// Writes docs/benchmarks.md and the plots that it shows from docs/benchmarks.json.
pub fn render(folder: &Path) -> Result<()> {
    let rows = read(&folder.join("benchmarks.json"))?;
    let plots = folder.join("plots");
    std::fs::create_dir_all(&plots)?;
    for table in page::REPORT_TABLES {
        let Some(plot) = table.plot else { continue };
        ratios::plot(&plots.join(plot), &page::shown(table.kind, &rows))
            .map_err(|e| anyhow!("plotting {plot}: {e}"))?;
    }
    let (id, title) = SHOWN_BARS;
    bars::plot(&plots.join(bars::file_name(id, title)), title, &bars::of(id, title, &rows))?;
    std::fs::write(folder.join("benchmarks.md"), page::text(&rows)?)?;
    Ok(())
}

fn read(json: &Path) -> Result<Vec<Row>> {
    let text = std::fs::read(json).with_context(|| format!("reading {}", json.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} does not hold rows", json.display()))
}

/// Finds the entry of [`ALL_MEASUREMENTS`] that measures a row: the one with its id, or with an id that the row's begins with.
fn section(row: &Row) -> Option<usize> {
    let place = |is: &dyn Fn(&Measurement) -> bool| ALL_MEASUREMENTS.iter().position(is);
    place(&|measurement| measurement.id == row.id).or_else(|| place(&|measurement| row.id.starts_with(measurement.id)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const MAX_PAGE_ROWS: usize = 40;

    /// The page had 800 rows and 40 plots, and nobody read it. A page that was written by hand, or plots that no page
    /// shows, would come back unseen: the rows and the page were never compared.
    #[test]
    fn the_page_shows_what_the_rows_say_and_is_one_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let rows = read(&docs.join("benchmarks.json")).unwrap();
        let shown: usize = page::REPORT_TABLES.iter().map(|table| page::shown(table.kind, &rows).len()).sum();
        let chosen: usize = ALL_MEASUREMENTS.iter().map(|measurement| measurement.page_rows.len()).sum();
        assert_eq!(shown, chosen, "each row that a claim puts on the page is in docs/benchmarks.json");
        assert!((20..=MAX_PAGE_ROWS).contains(&shown), "the page has {shown} rows");
        let text = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
        assert!(text == page::text(&rows).unwrap(), "`terrace-bench --render docs` writes the page");
        let plots = std::fs::read_dir(docs.join("plots")).unwrap();
        let plots: BTreeSet<String> = plots.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let linked = text.split("](plots/").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned());
        assert_eq!(plots, linked.collect::<BTreeSet<_>>(), "docs/plots has what the page shows");
    }
}
