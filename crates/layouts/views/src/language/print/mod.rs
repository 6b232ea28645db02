//! Formats a syntax tree in the only style of the language. Comments stay, and so does one of several blank lines.

mod expression;
mod literal;
mod replica;
mod view;

use super::ast::{At, Declaration, Name, Section, Type};
use super::{Parsed, Trivia};

pub use expression::expression;
pub use literal::{attribute_name, literal};

/// Returns the formatted text of a file.
pub fn print(parsed: &Parsed) -> String {
    let mut printer = Printer { out: String::new(), indent: 0, trivia: &parsed.trivia, at: 0 };
    for (i, section) in parsed.file.sections.iter().enumerate() {
        if i > 0 {
            printer.blank();
        }
        printer.section(section);
    }
    printer.before(usize::MAX);
    let text = printer.out.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

pub(super) struct Printer<'a> {
    out: String,
    indent: usize,
    trivia: &'a [Trivia],
    at: usize,
}

impl Printer<'_> {
    fn section(&mut self, section: &At<Section>) {
        let span = section.span;
        match &section.what {
            Section::Include(kind, file) => self.line(span.start, &format!("{kind} \"{file}\"")),
            Section::Dataset(declarations) => {
                self.line(span.start, "dataset {");
                self.inner(span.end, |p| declarations.iter().for_each(|d| p.declaration(d)));
                self.raw("}\n");
            }
            Section::View(view) => self.view(view, span),
            Section::Replica(replica) => self.replica(replica, span),
        }
    }

    fn declaration(&mut self, declaration: &At<Declaration>) {
        let (start, end) = (declaration.span.start, declaration.span.end);
        match &declaration.what {
            Declaration::Constant(name, value) => {
                self.line(start, &format!("const {} = {}", name.text, expression(value)))
            }
            Declaration::Type(name, shape) => self.shaped(start, end, &format!("type {}", name.text), shape),
            Declaration::Variables(list, shape) => self.shaped(start, end, &format!("var {}", names(list)), shape),
            Declaration::Attribute(path, name, value) => {
                let path = path.as_ref().map(|path| format!(" {}", dotted(path))).unwrap_or_default();
                let text = format!("attribute{path} {} = {}", attribute_name(&name.text), literal(&value.what));
                self.line(start, &text);
            }
            Declaration::Fill(path, value) => {
                self.line(start, &format!("fill {} = {}", dotted(path), literal(&value.what)))
            }
        }
    }

    /// Prints a declaration with its type.
    fn shaped(&mut self, start: usize, end: usize, head: &str, shape: &Type) {
        let mut text = format!("{head} ");
        let mut inner = shape;
        while let Type::Array(lengths, element) = inner {
            let lengths: Vec<String> = lengths.iter().map(expression).collect();
            text.push_str(&format!("[{}]", lengths.join(", ")));
            inner = element;
        }
        match inner {
            Type::Named(name) => self.line(start, &format!("{text}{}", name.text)),
            Type::Struct(fields) => {
                self.line(start, &format!("{text}struct {{"));
                self.inner(end, |p| {
                    for field in fields {
                        let head = names(&field.what.names);
                        p.shaped(field.span.start, field.span.end, &head, &field.what.shape);
                    }
                });
                self.raw("}\n");
            }
            Type::Array(..) => {}
        }
    }

    /// Prints the content of braces up to the closing brace at `end`.
    fn inner(&mut self, end: usize, print: impl FnOnce(&mut Self)) {
        self.indent += 1;
        print(self);
        self.before(end);
        self.indent -= 1;
        while self.out.ends_with("\n\n") {
            self.out.pop();
        }
    }

    /// Prints a line after the comments that precede it.
    fn line(&mut self, start: usize, text: &str) {
        self.before(start);
        self.raw(text);
        self.out.push('\n');
    }

    fn raw(&mut self, text: &str) {
        self.out.push_str(&"    ".repeat(self.indent));
        self.out.push_str(text);
    }

    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// Prints comments and blank lines up to a position.
    fn before(&mut self, place: usize) {
        while let Some(trivia) = self.trivia.get(self.at).filter(|trivia| trivia.span.start < place) {
            self.at += 1;
            match &trivia.comment {
                None => self.blank(),
                Some(comment) if trivia.alone || self.out.is_empty() || self.commented() => {
                    self.raw(comment);
                    self.out.push('\n');
                }
                Some(comment) => {
                    let ends = self.out.len() - self.out.trim_end_matches('\n').len();
                    self.out.truncate(self.out.len() - ends);
                    self.out.push_str("  ");
                    self.out.push_str(comment);
                    self.out.push_str(&"\n".repeat(ends));
                }
            }
        }
    }

    /// Returns whether the last line cannot take another comment.
    fn commented(&self) -> bool {
        self.out
            .trim_end_matches('\n')
            .rsplit('\n')
            .next()
            .is_some_and(|line| line.contains("//") || line.contains("*/"))
    }
}

pub(super) fn names(list: &[Name]) -> String {
    list.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(", ")
}

fn dotted(path: &[Name]) -> String {
    path.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(".")
}
