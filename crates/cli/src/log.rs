//! What is told of while a command runs.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::EnvFilter;

use crate::arguments::Arguments;
use crate::output::complain;

/// Warnings, or what TERRACE_LOG, -v or -q ask for, go to stderr.
pub fn begin(arguments: &Arguments) {
    let usual = match arguments.verbose {
        _ if arguments.quiet => "terrace=error",
        0 => "terrace=warn",
        1 => "terrace=info",
        _ => "terrace=debug",
    };
    let asked = std::env::var("TERRACE_LOG").ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(asked.as_deref().unwrap_or(usual)).unwrap_or_else(|e| {
        complain(&format!("TERRACE_LOG: {e}; write filters such as terrace=debug"));
        usual.into()
    });
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let writer = || Once;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(ansi);
    lines.with_target(false).without_time().init();
}

/// The line that was written last.
static LAST: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Writes lines to stderr, each of several same ones in a row once: what is tried again and again fails again and again.
struct Once;

impl Write for Once {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
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
