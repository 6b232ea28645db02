//! Plots the cost of each policy: time on the left, space by tier on the right.

use std::error::Error;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Compared;
use crate::interrupt::TemporaryFile;

const TIER_COLORS: [RGBColor; 6] = [
    RGBColor(46, 125, 90),
    RGBColor(60, 90, 190),
    RGBColor(214, 180, 110),
    RGBColor(190, 90, 60),
    RGBColor(130, 190, 160),
    RGBColor(150, 150, 150),
];

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn plot(path: &Path, tiers: &[&str], compared: &[Compared]) -> Result<()> {
    let mut picture = String::new();
    draw(&mut picture, tiers, compared).map_err(|e| anyhow!("drawing {}: {e}", path.display()))?;
    let made = TemporaryFile::make(path, |at| std::fs::write(at, picture.as_bytes()));
    made.and_then(|(beside, ())| beside.into_place(path)).with_context(|| format!("writing {}", path.display()))
}

fn draw(picture: &mut String, tiers: &[&str], compared: &[Compared]) -> Drawn {
    let root = SVGBackend::with_string(picture, (1100, 120 + 34 * compared.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(620);
    let phases: Vec<&str> = compared.first().map_or(Vec::new(), |first| first.phases.clone());
    let seconds = |of: &Compared| of.outcome.phases.iter().map(|phase| phase.seconds).collect();
    panel(&left, "seconds", 220, &phases, compared, &seconds)?;
    let bytes =
        |of: &Compared| of.outcome.tiers.iter().map(|stored| *stored as f64 / of.outcome.raw.max(1.0)).collect();
    panel(&right, "bytes stored for each byte written", 10, tiers, compared, &bytes)?;
    root.present()?;
    Ok(())
}

/// The number of legend lines at the bottom.
const LEGEND_LINES: usize = 2;

/// Draws stacked bars, one for each policy, the first on top.
fn panel(
    area: &Area<'_>,
    title: &str,
    label: u32,
    parts: &[&str],
    compared: &[Compared],
    values: &dyn Fn(&Compared) -> Vec<f64>,
) -> Drawn {
    let most = compared.iter().map(|of| values(of).iter().sum::<f64>()).fold(0.0, f64::max).max(1e-9) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(25)
        .y_label_area_size(label)
        .build_cartesian_2d(0.0..most, (1..LEGEND_LINES + compared.len()).into_segmented())?;
    let line = |at: usize| LEGEND_LINES + compared.len() - at;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) if label > 10 => compared
            .iter()
            .enumerate()
            .find(|(of, _)| line(*of) == *at)
            .map_or_else(String::new, |(_, of)| of.name.clone()),
        _ => String::new(),
    };
    chart.configure_mesh().disable_y_mesh().y_labels(LEGEND_LINES + compared.len()).y_label_formatter(&name).draw()?;
    for (part, (words, color)) in parts.iter().zip(TIER_COLORS.iter().cycle()).enumerate() {
        let bar = |(at, of): (usize, &Compared)| {
            let values = values(of);
            let before: f64 = values[..part].iter().sum();
            let corners =
                [(before, SegmentValue::Exact(line(at))), (before + values[part], SegmentValue::Exact(line(at) + 1))];
            let mut bar = Rectangle::new(corners, color.filled());
            bar.set_margin(4, 4, 0, 0);
            bar
        };
        let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled());
        chart.draw_series(compared.iter().enumerate().map(bar))?.label(*words).legend(key);
    }
    let corner = SeriesLabelPosition::LowerRight;
    chart.configure_series_labels().position(corner).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
