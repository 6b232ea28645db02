//! The checks of a declaration that involve several of its sections, and their layouts.

use super::{of_replica, of_view};
use crate::language::ast::File;
use crate::language::{Diagnostic, Diagnostics};
use crate::model::{Model, View, check};

impl Model {
    /// Resolves a file. If the diagnostics contain errors, the result must not be used.
    pub fn of(file: &File, diagnostics: &mut Diagnostics) -> Model {
        let mut model = Model::resolve(file, diagnostics);
        model.fit(diagnostics);
        model
    }

    /// Runs the checks that involve more than one section.
    fn fit(&mut self, diagnostics: &mut Diagnostics) {
        let mut good = !diagnostics.failed();
        for view in &self.views {
            good &= check::view(view, &self.dataset, diagnostics);
        }
        if !good {
            return;
        }
        for replica in &mut self.replicas {
            if replica.complete {
                let leaves = check::left_out(replica, &self.views, &self.dataset);
                replica.rest = (!leaves.is_empty()).then(|| View::of_leaves(&self.dataset, &leaves));
            }
        }
        check::coverage(self, diagnostics);
        let sizes = check::supposed(&self.dataset);
        for view in &self.views {
            if let Err(misfit) = of_view(view, &self.dataset, &sizes) {
                diagnostics.push(Diagnostic::error(
                    view.span,
                    format!("the view `{}` cannot be laid out: {misfit}", view.name),
                ));
            }
        }
        for replica in &self.replicas {
            match of_replica(replica, &self.views, &self.dataset, &sizes) {
                Ok(layout) if layout.is_regular() => {}
                Ok(_) => {
                    let error =
                        format!("the replica `{}` stores a view whose elements have no one place", replica.name);
                    let help =
                        "store a view in which each index moves along one dimension, and show this one from there";
                    diagnostics.push(Diagnostic::error(replica.span, error).help(help));
                }
                Err(misfit) => {
                    let error = format!("the replica `{}` cannot be laid out: {misfit}", replica.name);
                    diagnostics.push(Diagnostic::error(replica.span, error));
                }
            }
        }
    }
}
