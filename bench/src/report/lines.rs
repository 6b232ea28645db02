//! Plots of lines, of the rows that are points.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::row::{Row, number};

/// The points of each plot, by its title, in the order of the rows.
pub fn plots<'r>(rows: &[&'r Row]) -> Vec<(&'r str, Vec<&'r Row>)> {
    grouped(rows, |row| row.point.as_ref().map_or("", |point| &point.plot))
}

/// The file that a plot goes to.
pub fn name(id: &str, title: &str) -> String {
    let plain: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<String> = plain.split_whitespace().map(str::to_lowercase).collect();
    format!("{id}-{}.svg", words.join("-"))
}

/// Rows by a name, in the order of the first of each.
pub fn grouped<'r>(rows: &[&'r Row], of: impl Fn(&'r Row) -> &'r str) -> Vec<(&'r str, Vec<&'r Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(name, _)| *name == of(row)) {
            Some((_, group)) => group.push(row),
            None => groups.push((of(row), vec![row])),
        }
    }
    groups
}

const COLORS: [RGBColor; 4] =
    [RGBColor(150, 150, 150), RGBColor(190, 90, 60), RGBColor(46, 125, 90), RGBColor(60, 90, 190)];

/// Draws lines through points.
pub fn plot(path: &Path, title: &str, points: &[&Row]) -> Result<()> {
    draw(path, title, points).map_err(|error| anyhow!("{error}"))
}

fn draw(path: &Path, title: &str, points: &[&Row]) -> Result<(), Box<dyn std::error::Error>> {
    let at: Vec<&str> =
        grouped(points, |row| row.point.as_ref().map_or("", |point| &point.at)).into_iter().map(|(at, _)| at).collect();
    let most = points.iter().map(|row| row.ours).fold(0.0, f64::max) * 1.1;
    let root = SVGBackend::new(path, (640, 360)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d((0..at.len().saturating_sub(1)).into_segmented(), 0.0..most.max(f64::MIN_POSITIVE))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(at.len())
        .x_label_formatter(&|x| match x {
            SegmentValue::CenterOf(i) => at.get(*i).map(|at| (*at).to_owned()).unwrap_or_default(),
            _ => String::new(),
        })
        .y_desc(points.first().map(|row| row.unit.clone()).unwrap_or_default())
        .y_label_formatter(&|y| number(*y))
        .draw()?;
    let lines = grouped(points, |row| row.point.as_ref().map_or("", |point| &point.line));
    for ((name, points), color) in lines.into_iter().zip(COLORS.iter().cycle()) {
        let place = |row: &&Row| at.iter().position(|at| row.point.as_ref().is_some_and(|point| point.at == **at));
        let line: Vec<(SegmentValue<usize>, f64)> =
            points.iter().filter_map(|row| Some((SegmentValue::CenterOf(place(row)?), row.ours))).collect();
        let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2));
        chart.draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?.label(name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}
