//! Output for people and for scripts.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;

/// The largest number of objects that are named for people.
const MAX_NAMED_OBJECTS: usize = 20;

/// The output format.
#[derive(Clone, Copy)]
pub struct Show {
    pub json: bool,
    pub quiet: bool,
}

impl Show {
    /// Prints one or several lines for people.
    pub fn line(self, text: &str) -> Result<()> {
        if !self.json && !self.quiet {
            return print(format!("{}\n", visible(text, |c| c == '\n' || c == '\t')).as_bytes());
        }
        Ok(())
    }

    /// Prints a line for each of the first objects, and how many more there are.
    pub fn objects(self, lines: impl ExactSizeIterator<Item = String>) -> Result<()> {
        let more = lines.len().saturating_sub(MAX_NAMED_OBJECTS);
        for line in lines.take(MAX_NAMED_OBJECTS) {
            self.line(&line)?;
        }
        if more == 0 { Ok(()) } else { self.line(&format!("and so of {more} more; --json names all")) }
    }

    /// Prints a value for scripts.
    pub fn value(self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        print(&text)
    }

    /// Prints a result: the value for scripts, or the words for people.
    pub fn result(self, value: &impl Serialize, words: &str) -> Result<()> {
        if self.json { self.value(value) } else { self.line(words) }
    }

    /// Creates a progress bar over `total` bytes, on a terminal only.
    pub fn bar(self, total: u64) -> ProgressBar {
        if self.json || self.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = "{msg:24!} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(total).with_style(style)
    }

    /// Creates a progress bar over `total` steps, on a terminal only.
    pub fn steps(self, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:24!} {wide_bar} {elapsed}");
        self.bar(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// Creates a spinner for work of unknown size, on a terminal only.
    pub fn spinner(self) -> ProgressBar {
        if self.json || self.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() }
    }
}

/// Writes to stdout. A closed reader is not an error.
pub fn print(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to stdout"),
    }
}

/// Whether messages on stderr are JSON.
static MESSAGES_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// Switches messages on stderr to JSON, one object per line.
pub fn use_json_messages() {
    // Relaxed order suffices, because no other data depends on the flag.
    MESSAGES_ARE_JSON.store(true, Ordering::Relaxed);
}

/// Prints an error message.
pub fn complain(text: &str) {
    print_message("error", text);
}

/// Prints a message that is not an error.
pub fn note(text: &str) {
    print_message("note", text);
}

/// Prints a message on stderr. A write error is ignored, because it cannot be reported anywhere.
pub fn print_message(kind: &str, text: &str) {
    let line = match MESSAGES_ARE_JSON.load(Ordering::Relaxed) {
        true => format!("{}\n", json!({ kind: text })),
        false => format!("terrace: {}\n", visible(text, |c| c == '\n' || c == '\t')),
    };
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns the place of a target, with its node if that is known.
pub fn on_node(place: &str, node: Option<&str>) -> String {
    node.map_or_else(|| place.to_owned(), |node| format!("{node}: {place}"))
}

/// Formats a key for display: one line, without terminal control characters; different keys stay different.
pub fn name(key: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in key.utf8_chunks() {
        shown.push_str(&visible(&chunk.valid().replace('\\', "\\\\"), |_| false));
        chunk.invalid().iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    }
    shown
}

/// Formats a file's path for display, like a key.
pub fn path_name(path: &Path) -> String {
    name(path.as_os_str().as_bytes())
}

/// Escapes all characters that control a terminal or change the display order of others, except those that `may_stay` selects.
fn visible(text: &str, may_stay: impl Fn(char) -> bool) -> String {
    let obeyed = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match obeyed(c) && !may_stay(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Formats a number of bytes for people.
pub fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Formats a count with its noun: `1 object`, `2 objects`.
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Formats nanoseconds since 1970 as date and time in UTC.
pub fn time(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (mut day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while day < 0 {
        year -= 1;
        day += 365 + i64::from(leap(year));
    }
    while day >= 365 + i64::from(leap(year)) {
        day -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02}:{:02}", day + 1, second / 3600, second / 60 % 60, second % 60)
}

/// Creates a table without lines, with right-aligned numbers.
pub fn table(head: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(head);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_line_and_told_apart() {
        for (key, shown) in [
            (&b"a b"[..], "a b"),
            (b"caf\xc3\xa9", "caf\u{e9}"),
            (b"a\nb", "a\\nb"),
            (b"a\\nb", "a\\\\nb"),
            (b"\x1b[2J", "\\u{1b}[2J"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("\u{202e}txt".as_bytes(), "\\u{202e}txt"),
            (b"\xc2\x9b1m", "\\u{9b}1m"),
        ] {
            assert_eq!(name(key), shown);
        }
    }

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_798_761_599, "2026-12-31 23:59:59"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(time(seconds * 1_000_000_000), text);
        }
    }
}
