//! Resolves view sections.

mod cursor;
mod part;

use std::collections::HashMap;

use super::affine::{Affine, Names};
use super::view::{Loop, Node, View, ViewVariable};
use super::{Dataset, style};
use crate::language::ast::{self, At, Expression, Name, Reference, Selection, Step, ViewDeclaration, ViewField};
use crate::language::{Diagnostic, Diagnostics, Span, suggest};
use cursor::Cursor;

/// Resolves a view. `budget` is the number of leaves that may still be shown.
pub(crate) fn view(ast: &ast::View, dataset: &Dataset, budget: &mut usize, diagnostics: &mut Diagnostics) -> View {
    let style = style::style(&ast.flags, &dataset.constants, diagnostics);
    let mut types: HashMap<&str, (&[At<ViewField>], &Name)> = HashMap::new();
    for At { what, .. } in &ast.declarations {
        if let ViewDeclaration::Type(name, fields, base) = what
            && types.insert(&name.text, (fields, base)).is_some()
        {
            diagnostics.push(Diagnostic::error(name.span, format!("the view type `{}` is there already", name.text)));
        }
    }
    let mut view = View { name: ast.name.text.clone(), span: ast.name.span, style, variables: Vec::new() };
    let mut see = See { dataset, types, used: Vec::new(), loops: Vec::new(), scope: Vec::new(), budget, diagnostics };
    see.check_types();
    for At { what, span } in &ast.declarations {
        let ViewDeclaration::Variable(name, selection, source) = what else { continue };
        if let Some(first) = view.variables.iter().find(|v: &&ViewVariable| v.name == name.text) {
            let error = Diagnostic::error(name.span, format!("the view has two variables `{}`", name.text));
            see.diagnostics.push(error.label(first.span, "first here"));
        }
        (see.loops, see.scope) = (Vec::new(), Vec::new());
        if let Some(node) = see.variable(selection, source) {
            let loops = std::mem::take(&mut see.loops);
            let (name, path) = (name.text.clone(), path_of(source));
            view.variables.push(ViewVariable { name, span: *span, path, node, loops });
        }
    }
    view
}

/// Returns the path of what a reference leads to.
fn path_of(reference: &Reference) -> String {
    let fields = reference.steps.iter().filter_map(|step| match step {
        Step::Field(name) => Some(name.text.as_str()),
        Step::Index(_) => None,
    });
    std::iter::once(reference.base.text.as_str()).chain(fields).collect::<Vec<_>>().join(".")
}

struct See<'a, 'd> {
    dataset: &'a Dataset,
    types: HashMap<&'a str, (&'a [At<ViewField>], &'a Name)>,
    /// The view types that are being resolved, to detect cycles.
    used: Vec<String>,
    loops: Vec<Loop>,
    /// The names of indices; inner ones last.
    scope: Vec<(String, usize)>,
    budget: &'d mut usize,
    diagnostics: &'d mut Diagnostics,
}

impl See<'_, '_> {
    fn error<T>(&mut self, error: Diagnostic) -> Option<T> {
        self.diagnostics.push(error);
        None
    }

    fn check_types(&mut self) {
        for (name, (_, base)) in self.types.clone() {
            if !self.dataset.types.contains_key(&base.text) {
                let error = Diagnostic::error(
                    base.span,
                    format!("the dataset has no type `{}` that `{name}` could be a part of", base.text),
                );
                let help = suggest(&base.text, self.dataset.types.keys().map(String::as_str));
                self.diagnostics.push(Diagnostic { help, ..error });
            }
        }
    }

    fn variable(&mut self, selection: &Selection, source: &Reference) -> Option<Node> {
        let name = &source.base;
        let Some(number) = self.dataset.variable(&name.text) else {
            let error = Diagnostic::error(name.span, format!("the dataset has no variable `{}`", name.text));
            let known: Vec<&str> = self.dataset.variables.iter().map(|v| v.name.as_str()).collect();
            let help = suggest(&name.text, known.iter().copied());
            return self.error(Diagnostic { help, ..error });
        };
        let variable = self.dataset.variables.get(number)?;
        let start =
            Cursor { shape: variable.shape.clone(), leaf: variable.leaf, index: Vec::new(), path: name.text.clone() };
        self.select(selection, start, &source.steps, name.span)
    }

    /// Resolves a selection of the part that the steps lead to from the cursor. The steps may use indices of the
    /// selection.
    fn select(&mut self, selection: &Selection, start: Cursor, steps: &[Step], span: Span) -> Option<Node> {
        let scope = self.scope.len();
        let mut named: Vec<Vec<usize>> = Vec::new();
        let mut inner = selection;
        while let Selection::Array(indices, element) = inner {
            let mut own = Vec::new();
            for index in indices {
                if self.scope.iter().skip(scope).any(|(name, _)| *name == index.name.text) {
                    self.error::<()>(Diagnostic::error(
                        index.name.span,
                        format!("the index `{}` is named twice", index.name.text),
                    ));
                }
                let bound = match &index.bound {
                    Some(bound) => Some(self.bound(bound)?),
                    None => None,
                };
                own.push(self.loops.len());
                self.scope.push((index.name.text.clone(), self.loops.len()));
                self.loops.push(Loop { name: index.name.text.clone(), bound });
            }
            named.push(own);
            inner = element;
        }
        let node =
            self.follow(start, steps).and_then(|cursor| self.arrays(selection, cursor, &mut named.into_iter(), span));
        self.scope.truncate(scope);
        node
    }

    fn bound(&mut self, bound: &Expression) -> Option<u64> {
        let value = self.affine(bound, true)?.constant;
        match u64::try_from(value) {
            Ok(length) if length > 0 => Some(length),
            _ => self.error(Diagnostic::error(bound.span, format!("an index cannot stay below {value}"))),
        }
    }

    fn affine(&mut self, expression: &Expression, constant: bool) -> Option<Affine> {
        let indices = if constant { &[][..] } else { &self.scope };
        let variables = |name: &str| self.dataset.variable(name).is_some();
        match Affine::of(expression, &Names { constants: &self.dataset.constants, indices, variables: &variables }) {
            Ok(affine) => Some(affine),
            Err(error) => self.error(error),
        }
    }
}
