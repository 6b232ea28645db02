//! Plots with groups of bars: a group for each place, a colour for each line.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::row::{Row, number};

const BAR_COLORS: [RGBColor; 9] = [
    RGBColor(190, 190, 190),
    RGBColor(150, 150, 150),
    RGBColor(110, 110, 110),
    RGBColor(214, 180, 110),
    RGBColor(200, 140, 90),
    RGBColor(190, 90, 60),
    RGBColor(60, 90, 190),
    RGBColor(46, 125, 90),
    RGBColor(130, 190, 160),
];

/// Finds the bars of a plot.
pub fn of<'r>(id: &str, title: &str, rows: &'r [Row]) -> Vec<&'r Row> {
    let is_bar = |row: &&Row| row.id == id && row.point.as_ref().is_some_and(|point| point.bars && point.plot == title);
    rows.iter().filter(is_bar).collect()
}

/// Names the file of a plot.
pub fn file_name(id: &str, title: &str) -> String {
    let plain: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<String> = plain.split_whitespace().map(str::to_lowercase).collect();
    format!("{id}-{}.svg", words.join("-"))
}

/// Groups rows by a name, in the order of the first of each.
fn grouped<'r>(rows: &[&'r Row], of: impl Fn(&'r Row) -> &'r str) -> Vec<(&'r str, Vec<&'r Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(name, _)| *name == of(row)) {
            Some((_, group)) => group.push(row),
            None => groups.push((of(row), vec![row])),
        }
    }
    groups
}

/// Draws groups of bars, on a logarithmic scale.
pub fn plot(path: &Path, title: &str, bars: &[&Row]) -> Result<()> {
    draw(path, title, bars).map_err(|error| anyhow!("{error}"))
}

fn draw(path: &Path, title: &str, bars: &[&Row]) -> Result<(), Box<dyn std::error::Error>> {
    let groups = grouped(bars, |row| row.point.as_ref().map_or("", |point| &point.at));
    let names: Vec<&str> = grouped(bars, |row| row.point.as_ref().map_or("", |point| &point.line))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let (least, most) = bars.iter().fold((1.0, 1.0), |(least, most), row| (row.ours.min(least), row.ours.max(most)));
    let each = names.len() + 1;
    let root = SVGBackend::new(path, (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d((0..groups.len() * each).into_segmented(), (least / 1.5..most * 4.0).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_labels(groups.len() * each)
        .x_label_formatter(&|x| match x {
            SegmentValue::CenterOf(i) if i % each == each / 2 => groups[i / each].0.to_owned(),
            _ => String::new(),
        })
        .y_desc(bars.first().map(|row| row.unit.clone()).unwrap_or_default())
        .y_label_formatter(&|y| number(*y))
        .draw()?;
    for (line, (name, color)) in names.iter().zip(BAR_COLORS.iter().cycle()).enumerate() {
        let of = |row: &&&Row| row.point.as_ref().is_some_and(|point| point.line == **name);
        let bar = |(group, row): (usize, &Row)| {
            let at = group * each + line;
            let corners = [(SegmentValue::Exact(at), least / 1.5), (SegmentValue::Exact(at + 1), row.ours)];
            Rectangle::new(corners, color.filled())
        };
        let those = groups.iter().enumerate().filter_map(|(group, (_, rows))| Some((group, *rows.iter().find(of)?)));
        let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled());
        chart.draw_series(those.map(bar))?.label(*name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}
