//! Diagnostics: defects of a declaration, and advice.

use super::Span;

/// A defect of a declaration, or a suspicious construct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The description, in a sentence.
    pub message: String,
    /// The position.
    pub span: Span,
    /// Other relevant positions with a reason each.
    pub labels: Vec<(Span, String)>,
    /// The advice.
    pub help: Option<String>,
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The declaration cannot be used.
    Error,
    /// The declaration can be used, but may not be what the author meant.
    Warning,
}

impl Diagnostic {
    /// Makes an error.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, message: message.into(), span, labels: Vec::new(), help: None }
    }

    /// Makes a warning.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds another position.
    pub fn label(mut self, span: Span, why: impl Into<String>) -> Diagnostic {
        self.labels.push((span, why.into()));
        self
    }
}

/// The diagnostics so far, limited to a readable number.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    const MAX_DIAGNOSTICS: usize = 100;

    /// Adds a diagnostic, unless it is a duplicate or the limit is reached. At the limit, an error replaces a warning.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let said = |d: &Diagnostic| d.span == diagnostic.span && d.message == diagnostic.message;
        if self.found.iter().any(said) {
            return;
        }
        if self.found.len() < Self::MAX_DIAGNOSTICS {
            self.found.push(diagnostic);
        } else if diagnostic.severity == Severity::Error
            && let Some(warning) = self.found.iter_mut().rfind(|d| d.severity == Severity::Warning)
        {
            *warning = diagnostic;
        }
    }

    /// Returns whether there is an error.
    pub fn failed(&self) -> bool {
        self.found.iter().any(|d| d.severity == Severity::Error)
    }

    /// Returns all diagnostics in the order of the text.
    pub fn sorted(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|d| d.span);
        self.found
    }
}

/// Returns the known name nearest to a wrong name, if one is near enough.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > 64 {
        return None;
    }
    let near = |name: &&str| {
        let far = strsim::osa_distance(&wrong.to_lowercase(), &name.to_lowercase());
        (far <= wrong.len().max(3) / 3 && far < wrong.chars().count()).then_some(far)
    };
    known.into_iter().take(10_000).filter_map(|name| Some((near(&name)?, name))).min().map(|(_, name)| name)
}

/// Returns advice that names the nearest known name, or lists the first few if none is near.
pub(crate) fn suggest<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(name) = nearest(wrong, known.clone()) {
        return Some(format!("did you mean `{name}`?"));
    }
    let names: Vec<&str> = known.take(9).collect();
    let more = if names.len() > 8 { ", ..." } else { "" };
    let few = names.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("there is {few}{more}"))
}
