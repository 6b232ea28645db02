//! Diagnostics with their source lines.

use std::io::{self, IsTerminal};

use anyhow::Result;
use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, sources};
use serde::Serialize;
use terrace_views::{Diagnostic, Diagnostics, Severity, Sources, Span};

use crate::output::Show;

/// A diagnostic in JSON form.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    severity: &'a str,
    message: &'a str,
    help: Option<&'a str>,
}

/// Shows diagnostics: on stderr for people, on stdout for scripts.
pub fn report(files: &Sources, diagnostics: Diagnostics, show: Show) -> Result<()> {
    for diagnostic in diagnostics.sorted() {
        if show.json {
            show.value(&line(files, &diagnostic))?;
        } else if !(show.quiet && diagnostic.severity == Severity::Warning) {
            draw(files, &diagnostic)?;
        }
    }
    Ok(())
}

fn severity(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn line<'a>(files: &'a Sources, diagnostic: &'a Diagnostic) -> Line<'a> {
    let file = files.get(diagnostic.span.file);
    let before = file.and_then(|f| f.text.get(..diagnostic.span.start)).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Line {
        file: file.map_or("", |f| &f.name),
        line: 1 + before.matches('\n').count(),
        column: 1 + before.get(start..).unwrap_or_default().chars().count(),
        severity: severity(diagnostic),
        message: &diagnostic.message,
        help: diagnostic.help.as_deref(),
    }
}

fn draw(files: &Sources, diagnostic: &Diagnostic) -> Result<()> {
    let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (kind, shade) = match diagnostic.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
    };
    let place = |span: Span| {
        let file = files.get(span.file);
        let length = file.map_or(0, |f| f.text.len());
        (file.map_or("", |f| f.name.as_str()).to_owned(), span.start.min(length)..span.end.min(length))
    };
    let config = Config::default().with_color(color).with_index_type(IndexType::Byte);
    let mut report = Report::build(kind, place(diagnostic.span)).with_config(config).with_message(&diagnostic.message);
    report = report.with_label(Label::new(place(diagnostic.span)).with_color(shade).with_message("here"));
    for (span, why) in &diagnostic.labels {
        report = report.with_label(Label::new(place(*span)).with_color(Color::Blue).with_message(why));
    }
    if let Some(help) = &diagnostic.help {
        report = report.with_help(help);
    }
    let cache = sources(files.iter().map(|file| (file.name.clone(), file.text.as_str())));
    // Locked, so that no log line comes between the lines of the report.
    match report.finish().write(cache, io::stderr().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
