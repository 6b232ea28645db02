//! Resolves the part of something that a selection shows.

use super::See;
use super::cursor::Cursor;
use crate::language::ast::{At, Name, Selection, ViewField};
use crate::language::{Diagnostic, Span, suggest};
use crate::model::dataset::MAX_LEAVES;
use crate::model::view::{Loop, Node, Seen};
use crate::model::{Affine, Shape};

impl See<'_, '_> {
    /// Resolves the arrays of a selection. `named` has the loops of each, in order.
    pub(super) fn arrays(
        &mut self,
        selection: &Selection,
        cursor: Cursor,
        named: &mut dyn Iterator<Item = Vec<usize>>,
        span: Span,
    ) -> Option<Node> {
        let (own, element) = match selection {
            Selection::Array(_, element) => (named.next().unwrap_or_default(), element),
            Selection::Whole => return self.whole(cursor, span),
            Selection::Fields(fields) => return self.fields(fields, &cursor, span),
            Selection::Named(name) => return self.named(name, cursor),
        };
        let used = cursor.index.iter().flat_map(|a| &a.terms).any(|(index, _)| own.contains(index));
        // Without an index on the right side, the selection shows the array itself.
        if own.is_empty() || (!used && matches!(&cursor.shape, Shape::Array(lengths, _) if lengths.len() == own.len()))
        {
            let Shape::Array(lengths, inner) = cursor.shape.clone() else {
                return self.error(Diagnostic::error(span, format!("`{}` is no array; leave out the []", cursor.path)));
            };
            let own = if own.is_empty() { self.fresh(lengths.len()) } else { own };
            let index = cursor.index.iter().cloned().chain(own.iter().map(|l| Affine::index(*l))).collect();
            let inner = Cursor { shape: (*inner).clone(), index, path: format!("{}[]", cursor.path), ..cursor };
            let node = self.arrays(element, inner, named, span)?;
            return Some(Node::Array(own, Box::new(node)));
        }
        let node = self.arrays(element, cursor, named, span)?;
        Some(Node::Array(own, Box::new(node)))
    }

    fn fresh(&mut self, count: usize) -> Vec<usize> {
        let first = self.loops.len();
        self.loops.extend((0..count).map(|_| Loop { name: String::new(), bound: None }));
        (first..first + count).collect()
    }

    /// Resolves everything at the cursor.
    fn whole(&mut self, cursor: Cursor, span: Span) -> Option<Node> {
        match &cursor.shape {
            Shape::Primitive(_) => {
                let Some(rest) = self.budget.checked_sub(1) else {
                    return self
                        .error(Diagnostic::error(span, format!("the views have more than {MAX_LEAVES} members")));
                };
                *self.budget = rest;
                Some(Node::Leaf(Seen { leaf: cursor.leaf, index: cursor.index }))
            }
            Shape::Struct(members) => {
                let mut leaf = cursor.leaf;
                let mut nodes = Vec::new();
                for member in members.iter() {
                    let path = format!("{}.{}", cursor.path, member.name);
                    let inner = Cursor { shape: member.shape.clone(), leaf, index: cursor.index.clone(), path };
                    leaf += member.leaves;
                    nodes.push((member.name.clone(), self.whole(inner, span)?));
                }
                Some(Node::Struct(nodes))
            }
            Shape::Array(lengths, element) => {
                let own = self.fresh(lengths.len());
                let index = cursor.index.iter().cloned().chain(own.iter().map(|l| Affine::index(*l))).collect();
                let inner =
                    Cursor { shape: (**element).clone(), leaf: cursor.leaf, index, path: format!("{}[]", cursor.path) };
                Some(Node::Array(own, Box::new(self.whole(inner, span)?)))
            }
        }
    }

    fn fields(&mut self, fields: &[At<ViewField>], cursor: &Cursor, span: Span) -> Option<Node> {
        let mut nodes: Vec<(String, Node)> = Vec::new();
        let mut whole = true;
        for field in fields {
            let ViewField { names, selection, source } = &field.what;
            for name in names {
                if nodes.iter().any(|(known, _)| *known == name.text) {
                    self.error::<()>(Diagnostic::error(
                        name.span,
                        format!("there are two fields `{}` here", name.text),
                    ));
                }
                let (base, steps) = source.as_ref().map_or((name, &[][..]), |source| (&source.base, &source.steps));
                let start = self.member(cursor, base);
                match start.and_then(|start| self.select(selection, start, steps, name.span)) {
                    Some(node) => nodes.push((name.text.clone(), node)),
                    None => whole = false,
                }
            }
        }
        if fields.is_empty() {
            return self.error(
                Diagnostic::error(span, "the braces name no field").help("name at least one, or leave out the braces"),
            );
        }
        whole.then_some(Node::Struct(nodes))
    }

    fn named(&mut self, name: &Name, cursor: Cursor) -> Option<Node> {
        let wrong = |base: &str| Diagnostic::error(name.span, format!("`{}` is no `{base}`", cursor.path));
        if let Some((fields, base)) = self.types.get(name.text.as_str()).copied() {
            let shape = self.dataset.types.get(&base.text)?;
            if *shape != cursor.shape {
                let array = matches!(cursor.shape, Shape::Array(..));
                let error = wrong(&base.text).label(base.span, format!("`{}` is a part of this", name.text));
                return self.error(if array {
                    error.help("write [] before the type, to see the elements")
                } else {
                    error
                });
            }
            if self.used.contains(&name.text) {
                return self
                    .error(Diagnostic::error(name.span, format!("the view type `{}` contains itself", name.text)));
            }
            self.used.push(name.text.clone());
            let node = self.fields(fields, &cursor, name.span);
            self.used.pop();
            return node;
        }
        let primitive = name.text.parse().ok().map(Shape::Primitive);
        match primitive.as_ref().or_else(|| self.dataset.types.get(&name.text)) {
            Some(shape) if *shape == cursor.shape => self.whole(cursor, name.span),
            Some(_) => self.error(wrong(&name.text).help("a view shows data in the dataset's own types")),
            None => {
                let error = Diagnostic::error(name.span, format!("there is no view type or type `{}`", name.text));
                let known: Vec<&str> =
                    self.types.keys().copied().chain(self.dataset.types.keys().map(String::as_str)).collect();
                let help = suggest(&name.text, known.iter().copied());
                self.error(Diagnostic { help, ..error })
            }
        }
    }
}
