//! Formats views.

use super::{Printer, expression, names};
use crate::language::Span;
use crate::language::ast::{At, Flag, Index, Reference, Selection, Step, View, ViewDeclaration, ViewField};

impl Printer<'_> {
    pub(super) fn view(&mut self, view: &View, span: Span) {
        let flags: String = view.flags.iter().map(|f| format!(" {}", flag(&f.what))).collect();
        self.line(span.start, &format!("view {}{flags} {{", view.name.text));
        self.inner(span.end, |p| {
            for At { what, span } in &view.declarations {
                match what {
                    ViewDeclaration::Type(name, fields, base) => {
                        let head = format!("type {} ", name.text);
                        p.fields(*span, &head, fields, &format!(" {}", base.text));
                    }
                    ViewDeclaration::Variable(name, selection, source) => {
                        p.selected(
                            *span,
                            &format!("var {}", name.text),
                            selection,
                            &format!(" = {}", reference(source)),
                        );
                    }
                }
            }
        });
        self.raw("}\n");
    }

    /// Prints a head, a selection, and the rest of the line.
    fn selected(&mut self, span: Span, head: &str, selection: &Selection, tail: &str) {
        let mut text = head.to_owned();
        let mut inner = selection;
        while let Selection::Array(indices, element) = inner {
            let indices: Vec<String> = indices.iter().map(index).collect();
            let gap = if text == head { " " } else { "" };
            text.push_str(&format!("{gap}[{}]", indices.join(", ")));
            inner = element;
        }
        match inner {
            Selection::Named(name) => {
                let gap = if text == head { " " } else { "" };
                self.line(span.start, &format!("{text}{gap}{}{tail}", name.text));
            }
            Selection::Fields(fields) => self.fields(span, &format!("{text} "), fields, tail),
            Selection::Whole | Selection::Array(..) => self.line(span.start, &format!("{text}{tail}")),
        }
    }

    /// Prints fields in braces; on one line if they are short.
    fn fields(&mut self, span: Span, head: &str, fields: &[At<ViewField>], tail: &str) {
        if let Some(text) = short(fields) {
            return self.line(span.start, &format!("{head}{text}{tail}"));
        }
        self.line(span.start, &format!("{head}{{"));
        self.inner(span.end, |p| {
            for At { what, span } in fields {
                let tail = what.source.as_ref().map(|source| format!(" = {}", reference(source))).unwrap_or_default();
                p.selected(*span, &names(&what.names), &what.selection, &tail);
            }
        });
        self.raw(&format!("}}{tail}\n"));
    }
}

/// Formats fields without selections on one line.
fn short(fields: &[At<ViewField>]) -> Option<String> {
    match fields {
        [] => Some("{}".to_owned()),
        [At { what: ViewField { names: list, selection: Selection::Whole, source: None }, .. }] => {
            Some(format!("{{ {} }}", names(list)))
        }
        _ => None,
    }
}

fn index(index: &Index) -> String {
    match &index.bound {
        Some(bound) => format!("{} < {}", index.name.text, expression(bound)),
        None => index.name.text.clone(),
    }
}

fn reference(reference: &Reference) -> String {
    let mut text = reference.base.text.clone();
    for step in &reference.steps {
        match step {
            Step::Field(name) => text.push_str(&format!(".{}", name.text)),
            Step::Index(indices) => {
                let indices: Vec<String> = indices.what.iter().map(expression).collect();
                text.push_str(&format!("[{}]", indices.join(", ")));
            }
        }
    }
    text
}

fn flag(flag: &Flag) -> String {
    match flag {
        Flag::ReadOnly => "read-only".to_owned(),
        Flag::Default => "default".to_owned(),
        Flag::RowMajor => "rowmajor".to_owned(),
        Flag::RowMinor => "rowminor".to_owned(),
        Flag::Tiled(shape) => format!("tiled({})", shape.iter().map(expression).collect::<Vec<_>>().join(", ")),
        Flag::Blocked(length) => format!("blocked({})", expression(length)),
        Flag::ZOrder => "zorder".to_owned(),
        Flag::Little => "little".to_owned(),
        Flag::Big => "big".to_owned(),
        Flag::Packed => "packed".to_owned(),
        Flag::Aligned => "aligned".to_owned(),
        Flag::Align(bytes) => format!("align({})", expression(bytes)),
    }
}
