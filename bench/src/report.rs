//! docs/benchmarks.json, .md and the plots beside them.

mod bars;
mod lines;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::claims::ALL;
use crate::row::{Row, mark, number};

/// Writes all three. Rows of claims that were not measured this time stay.
pub fn write(folder: &Path, rows: &[Row]) -> Result<()> {
    let plots = folder.join("plots");
    std::fs::create_dir_all(&plots)?;
    let json = folder.join("benchmarks.json");
    let old: Vec<Row> =
        std::fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let mut all: Vec<Row> =
        old.into_iter().filter(|o| rows.iter().all(|r| r.id != o.id)).chain(rows.iter().cloned()).collect();
    all.sort_by_key(|row| (section(row), row.point.is_some(), row.id.clone()));
    std::fs::write(&json, serde_json::to_string_pretty(&all)? + "\n")?;
    let mut page = String::from(
        "# Benchmarks\n\n`make bench` writes this page. \"Beside\" is the paper's figure, or the peer's, measured in the same run, alternating; \
         \"ratio\" is how many times better ours is. Data is made by the benchmark unless a row says otherwise. \
         [learned.md](learned.md) says what the papers' evaluations taught.\n",
    );
    for (place, (id, what, _)) in ALL.iter().enumerate() {
        let (points, rows): (Vec<&Row>, Vec<&Row>) =
            all.iter().filter(|row| section(row) == Some(place)).partition(|row| row.point.is_some());
        if rows.is_empty() {
            continue;
        }
        writeln!(
            page,
            "\n## {id}: {what}\n\n| what | beside | goal | ours | unit | ratio | | details |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for row in &rows {
            let option = |value: Option<f64>| value.map(number).unwrap_or_default();
            let ratio = row.ratio.map(|r| format!("{r:.2}x")).unwrap_or_default();
            let claim = if row.id == *id { String::new() } else { format!("{}: ", row.id) };
            writeln!(
                page,
                "| {claim}{} | {} | {} | {} | {} | {ratio} | {} | {} |",
                row.what,
                option(row.paper),
                option(row.goal),
                number(row.ours),
                row.unit,
                mark(row),
                row.details
            )?;
        }
        let compared: Vec<&Row> = rows.into_iter().filter(|row| row.ratio.is_some()).collect();
        let is_bars = |points: &[&Row]| points.iter().any(|row| row.point.as_ref().is_some_and(|point| point.bars));
        if !is_bars(&points) && !compared.is_empty() {
            plot(&plots.join(format!("{id}.svg")), &compared).map_err(|e| anyhow!("plotting {id}: {e}"))?;
            writeln!(page, "\n![{id}](plots/{id}.svg)")?;
        }
        for (title, points) in lines::plots(&points) {
            let name = lines::name(id, title);
            let draw = if is_bars(&points) { bars::plot } else { lines::plot };
            draw(&plots.join(&name), title, &points).map_err(|e| anyhow!("plotting {title}: {e}"))?;
            writeln!(page, "\n![{title}](plots/{name})")?;
        }
    }
    std::fs::write(folder.join("benchmarks.md"), page)?;
    Ok(())
}

/// Of which entry of [`ALL`] a row is: the one with its id, or with what that begins with.
fn section(row: &Row) -> Option<usize> {
    let place = |is: &dyn Fn(&str) -> bool| ALL.iter().position(|(id, ..)| is(id));
    place(&|id| id == row.id).or_else(|| place(&|id| row.id.starts_with(id)))
}

/// Bars of the ratios; the line is where both are equal.
fn plot(path: &Path, rows: &[&Row]) -> Result<(), Box<dyn std::error::Error>> {
    let height = 70 + 26 * rows.len() as u32;
    let root = SVGBackend::new(path, (900, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = rows.iter().filter_map(|r| r.ratio).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_right(40)
        .x_label_area_size(30)
        .y_label_area_size(430)
        .build_cartesian_2d(0.0..most, (0..rows.len()).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("times better")
        .y_labels(rows.len())
        .y_label_formatter(&|y| match y {
            SegmentValue::CenterOf(i) => rows.get(*i).map(|r| r.what.clone()).unwrap_or_default(),
            _ => String::new(),
        })
        .draw()?;
    chart.draw_series(rows.iter().enumerate().map(|(i, row)| {
        let ratio = row.ratio.unwrap_or(0.0);
        let color = if ratio >= 1.0 { RGBColor(46, 125, 90) } else { RGBColor(190, 90, 60) };
        let mut bar =
            Rectangle::new([(0.0, SegmentValue::Exact(i)), (ratio, SegmentValue::Exact(i + 1))], color.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    let line = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(rows.len()))];
    chart.draw_series(LineSeries::new(line, BLACK.stroke_width(1)))?;
    root.present()?;
    Ok(())
}
