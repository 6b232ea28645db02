//! Plots of the ratios of a table, as bars that begin at the line where both sides are equal.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::row::{PageRow, Row, number};

const WIN_COLOR: RGBColor = RGBColor(46, 125, 90);
const LOSS_COLOR: RGBColor = RGBColor(190, 90, 60);

/// Draws a bar for each row with a ratio, on a logarithmic scale.
pub fn plot(path: &Path, shown: &[(&PageRow, &Row)]) -> Result<(), Box<dyn Error>> {
    let bars: Vec<(&str, f64)> =
        shown.iter().filter_map(|(page_row, row)| Some((page_row.words, row.ratio?))).rev().collect();
    let (least, most) = bars.iter().fold((1.0_f64, 1.0_f64), |(least, most), (_, r)| (least.min(*r), most.max(*r)));
    let root = SVGBackend::new(path, (1000, 60 + 22 * bars.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_right(30)
        .x_label_area_size(35)
        .y_label_area_size(520)
        .build_cartesian_2d((least / 1.5..most * 1.5).log_scale(), (0..bars.len()).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .max_light_lines(1)
        .x_desc("times better")
        .x_label_formatter(&|x| number(*x))
        .y_labels(bars.len())
        .y_label_style(("sans-serif", 12))
        .y_label_formatter(&|y| match y {
            SegmentValue::CenterOf(at) => bars.get(*at).map(|(words, _)| (*words).to_owned()).unwrap_or_default(),
            _ => String::new(),
        })
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(at, (_, ratio))| {
        let color = if *ratio >= 1.0 { WIN_COLOR } else { LOSS_COLOR };
        let corners = [(1.0, SegmentValue::Exact(at)), (*ratio, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, color.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    let equal = [(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(bars.len()))];
    chart.draw_series(LineSeries::new(equal, BLACK.stroke_width(1)))?;
    root.present()?;
    Ok(())
}
