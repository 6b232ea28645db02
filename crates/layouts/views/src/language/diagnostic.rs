//! Diagnostics: what is wrong with a declaration, and what to do about it.

use super::Span;

/// Something to tell about a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The defect, in a sentence.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Other places that matter, and why.
    pub labels: Vec<(Span, String)>,
    /// The advice.
    pub help: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The declaration cannot be used.
    Error,
    /// It can, but is perhaps not what was meant.
    Warning,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, message: message.into(), span, labels: Vec::new(), help: None }
    }

    /// A warning.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// With what to do next.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// With another place.
    pub fn label(mut self, span: Span, why: impl Into<String>) -> Diagnostic {
        self.labels.push((span, why.into()));
        self
    }
}

/// The findings so far, at most as many as a person can read.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    const MAX_DIAGNOSTICS: usize = 100;

    /// Adds one, unless there are too many or it was said before. Where there are too many, an error takes a warning's place.
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

    /// Whether there is an error among them.
    pub fn failed(&self) -> bool {
        self.found.iter().any(|d| d.severity == Severity::Error)
    }

    /// All, in the order of the text.
    pub fn sorted(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|d| d.span);
        self.found
    }
}

/// The known name that is nearest to a wrong one, if it is near.
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

/// A help that names the nearest known name, where one is near, and else lists the first few.
pub(crate) fn suggest<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(name) = nearest(wrong, known.clone()) {
        return Some(format!("did you mean `{name}`?"));
    }
    let names: Vec<&str> = known.take(9).collect();
    let more = if names.len() > 8 { ", ..." } else { "" };
    let few = names.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("there is {few}{more}"))
}
