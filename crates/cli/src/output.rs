//! What people and scripts see.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// How to show results.
#[derive(Clone, Copy)]
pub struct Show {
    pub json: bool,
    pub quiet: bool,
}

impl Show {
    /// A line for people.
    pub fn line(self, text: &str) {
        if !self.json && !self.quiet {
            // A closed pipe is found by the next command's own output.
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    /// A value for scripts.
    pub fn value(self, value: &impl Serialize) -> Result<()> {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, value)?;
        writeln!(out)?;
        Ok(())
    }

    /// A bar over `total` bytes, on a terminal only.
    pub fn bar(self, total: u64) -> ProgressBar {
        if self.json || self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = "{msg:24!} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(total).with_style(style)
    }
}

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// A table without lines, its numbers to the right.
pub fn table(head: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(head);
    table
}
