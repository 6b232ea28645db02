//! Plots of bars in groups, of the rows that are bars: a group for each place, a colour for each line.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::lines::grouped;
use crate::row::{Row, number};

const COLORS: [RGBColor; 9] = [
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
    for (line, (name, color)) in names.iter().zip(COLORS.iter().cycle()).enumerate() {
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
