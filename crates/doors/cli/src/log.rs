//! Logging while a command runs.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt as lines_of};

use crate::globals::Globals;
use crate::output::{complain, print_message};

/// Logs to stderr: warnings, or the level that TERRACE_LOG, -v or -q select.
pub fn begin(globals: &Globals) {
    let usual = match globals.verbose {
        _ if globals.quiet => "terrace=error",
        0 => "terrace=warn",
        1 => "terrace=info",
        _ => "terrace=debug",
    };
    let asked = std::env::var("TERRACE_LOG").ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(asked.as_deref().unwrap_or(usual)).unwrap_or_else(|e| {
        complain(&format!("TERRACE_LOG: {e}; write filters such as terrace=debug"));
        usual.into()
    });
    if globals.json {
        tracing_subscriber::registry().with(filter).with(ByJson).init();
        return;
    }
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let writer = || Once;
    let lines = lines_of().with_env_filter(filter).with_writer(writer).with_ansi(ansi);
    lines.with_target(false).without_time().init();
}

/// Logs events as JSON, the format of all other messages in that mode.
struct ByJson;

impl<S: Subscriber> Layer<S> for ByJson {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let kind = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let mut last = LAST_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != text.0.as_bytes() {
            print_message(kind, &text.0);
            *last = text.0.into_bytes();
        }
    }
}

/// An event's message and fields, in the order of the text format.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        self.0 = match field.name() {
            "message" => format!("{value:?}{space}{}", self.0),
            name => format!("{}{space}{name}={value:?}", self.0),
        };
    }
}

/// The last written line.
static LAST_MESSAGE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A writer to stderr that drops repeated lines: a retried operation fails with the same message again and again.
struct Once;

impl Write for Once {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut last = LAST_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != line {
            io::stderr().write_all(line)?;
            line.clone_into(&mut last);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
