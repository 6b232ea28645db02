//! The text of docs/benchmarks.md.

use std::fmt::Write as _;

use anyhow::Result;

use super::{SHOWN_BARS, bars};
use crate::claims::{ALL_MEASUREMENTS, PageTable};
use crate::row::{DataOrigin, PageRow, Row, mark, number};

/// A table of the page.
pub struct TableText {
    pub kind: PageTable,
    heading: &'static str,
    /// The file with the plot of its ratios.
    pub plot: Option<&'static str>,
}

/// The tables, in the order of the page.
pub const REPORT_TABLES: [TableText; 3] = [
    TableText { kind: PageTable::Tools, heading: "Beside tools", plot: Some("tools.svg") },
    TableText { kind: PageTable::Papers, heading: "Beside the papers", plot: Some("papers.svg") },
    TableText { kind: PageTable::Limits, heading: "Limits", plot: None },
];

/// Finds the rows of a table, in the order in which claims list them. A row that was not measured is left out.
pub fn shown(table: PageTable, rows: &[Row]) -> Vec<(&'static PageRow, &Row)> {
    let of_table = ALL_MEASUREMENTS.iter().filter(|measurement| measurement.table == table);
    let measured = |page_row: &'static PageRow| {
        let is_row = |row: &&Row| row.id == page_row.id && row.what == page_row.what && row.point.is_none();
        rows.iter().find(is_row).map(|row| (page_row, row))
    };
    of_table.flat_map(|measurement| measurement.page_rows).filter_map(measured).collect()
}

/// Writes the page.
pub fn text(rows: &[Row]) -> Result<String> {
    let (goals, met) = (rows.iter().filter(|row| row.pass.is_some()), rows.iter().filter(|row| row.pass == Some(true)));
    let mut page = format!(
        "# Benchmarks\n\n\
         `make bench` measures; `terrace-bench --render docs` writes this page from [benchmarks.json](benchmarks.json), which has \
         all {} rows: {} have a goal, and {} of these meet it.\n\n\
         *Theirs* is the tool's figure, or the paper's. A tool runs in turn with Terrace, in one run on one machine; the papers' \
         clusters are throttled directories here. *Ratio* says how many times better Terrace is: less than 1 is a loss. \
         *Virtual time* is computed from costs that were measured on these bytes. Data is *real* (files or memory of real \
         programs) or *made* by the benchmark. [learned.md](learned.md) explains losses to the papers.\n",
        rows.iter().filter(|row| row.point.is_none()).count(),
        goals.count(),
        met.count(),
    );
    for table in REPORT_TABLES {
        writeln!(
            page,
            "\n## {}\n\n| claim | figure | theirs | ours | ratio | goal | | data |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
            table.heading
        )?;
        for (page_row, row) in shown(table.kind, rows) {
            let with_unit = |value: f64| format!("{} {}", number(value), row.unit).trim_end().to_owned();
            let cell = |value: Option<f64>| value.map(with_unit).unwrap_or_default();
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row.id,
                page_row.words,
                cell(row.paper),
                with_unit(row.ours),
                row.ratio.map(|ratio| format!("{}x", number(ratio))).unwrap_or_default(),
                cell(row.goal),
                mark(row),
                match page_row.data {
                    DataOrigin::Real => "real",
                    DataOrigin::Made => "made",
                },
            )?;
        }
        if let Some(plot) = table.plot {
            writeln!(page, "\n![{}: ratios](plots/{plot})", table.heading)?;
        }
    }
    let (id, title) = SHOWN_BARS;
    writeln!(page, "\n## {id}: all contenders\n\n![{title}](plots/{})", bars::file_name(id, title))?;
    Ok(page)
}
