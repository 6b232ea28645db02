//! A figure, with the goal or the peer's figure.

use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The claim's id.
    pub id: String,
    /// The measured quantity.
    pub what: String,
    /// The paper's figure, or the peer's from the same run.
    pub paper: Option<f64>,
    /// The goal.
    pub goal: Option<f64>,
    /// Our figure.
    pub ours: f64,
    /// The unit of all three.
    pub unit: String,
    /// The factor by which ours is better than `paper`.
    pub ratio: Option<f64>,
    /// Whether the goal is met; `None` without a goal.
    pub pass: Option<bool>,
    /// Conditions, and other observations.
    pub details: String,
    /// The place in a plot, if the row is part of a plot instead of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
}

/// A place in a plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// The plot's title. The row's unit is the unit of its values.
    pub plot: String,
    /// The name of its line.
    pub line: String,
    /// The place along the line. Points are in the order of the rows.
    pub at: String,
    /// Whether it is a bar beside those of the other lines at the same place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bars: bool,
}

/// Names a row that docs/benchmarks.md shows. All rows are in docs/benchmarks.json.
pub struct PageRow {
    /// The row's `id`.
    pub id: &'static str,
    /// The row's `what`.
    pub what: &'static str,
    /// A description for a reader who knows neither the papers nor the code.
    pub words: &'static str,
    /// The origin of the bytes.
    pub data: DataOrigin,
}

/// The origin of the bytes of a row.
#[derive(Clone, Copy)]
pub enum DataOrigin {
    /// Files or memory of real programs.
    Real,
    /// Bytes that the benchmark makes.
    Made,
}

impl PageRow {
    /// Shows a row that was measured on real data.
    pub const fn real(id: &'static str, what: &'static str, words: &'static str) -> PageRow {
        PageRow { id, what, words, data: DataOrigin::Real }
    }

    /// Shows a row that was measured on made data.
    pub const fn made(id: &'static str, what: &'static str, words: &'static str) -> PageRow {
        PageRow { id, what, words, data: DataOrigin::Made }
    }
}

/// The direction in which a figure is better.
#[derive(Clone, Copy, PartialEq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Row {
    /// Makes a figure without a comparison.
    pub fn new(id: &str, what: impl Into<String>, ours: f64, unit: &str) -> Row {
        Row {
            id: id.into(),
            what: what.into(),
            paper: None,
            goal: None,
            ours,
            unit: unit.into(),
            ratio: None,
            pass: None,
            details: String::new(),
            point: None,
        }
    }

    /// Makes a point of a plot.
    pub fn point(id: &str, plot: &str, line: &str, at: impl ToString, value: f64, unit: &str) -> Row {
        let point = Point { plot: plot.into(), line: line.into(), at: at.to_string(), bars: false };
        Row { point: Some(point), ..Row::new(id, format!("{plot}, {line}"), value, unit) }
    }

    /// Makes a bar of a plot.
    pub fn bar(id: &str, plot: &str, line: &str, at: impl ToString, value: f64, unit: &str) -> Row {
        let bar = Row::point(id, plot, line, at, value, unit);
        Row { point: bar.point.map(|point| Point { bars: true, ..point }), ..bar }
    }

    /// Sets the paper's figure, or a peer's from the same run.
    pub fn beside(mut self, other: f64, better: Better) -> Row {
        self.paper = Some(other);
        self.ratio = Some(if better == Better::Higher { self.ours / other } else { other / self.ours });
        self
    }

    /// Sets a goal.
    pub fn goal(mut self, goal: f64, better: Better) -> Row {
        self.goal = Some(goal);
        self.pass = Some(if better == Better::Higher { self.ours >= goal } else { self.ours <= goal });
        self
    }

    /// Sets the conditions.
    pub fn details(mut self, details: impl Into<String>) -> Row {
        self.details = details.into();
        self
    }
}

/// Formats the rows for a terminal.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(["id", "what", "beside", "goal", "ours", "unit", "ratio", "", "details"]);
    for row in rows.iter().filter(|row| row.point.is_none()) {
        table.add_row([
            row.id.clone(),
            row.what.clone(),
            row.paper.map(number).unwrap_or_default(),
            row.goal.map(number).unwrap_or_default(),
            number(row.ours),
            row.unit.clone(),
            row.ratio.map(|r| format!("{r:.2}x")).unwrap_or_default(),
            mark(row).into(),
            row.details.clone(),
        ]);
    }
    table
}

/// Says in a word whether the goal is met.
pub fn mark(row: &Row) -> &'static str {
    match row.pass {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "",
    }
}

/// Formats a number with about three significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.2}M", value / 1e6),
        v if v >= 1e4 => format!("{:.0}K", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v < 0.1 && v > 0.0 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}
