//! Resolves a declaration: looks up names, determines types and checks slices.

mod affine;
mod attribute;
pub(crate) mod check;
mod dataset;
mod described;
mod primitive;
mod replica;
mod see;
mod set;
mod shape;
mod style;
mod view;

pub use affine::Affine;
pub(crate) use attribute::is_number;
pub use attribute::{Attribute, Items, Scalar, Value};
pub use dataset::{Dataset, Leaf, Variable};
pub use primitive::{Part, Primitive};
pub use replica::{Backend, Replica};
pub(crate) use set::{Progression, meet};
pub use shape::{Length, Member, Shape};
pub use style::{Arrangement, Packing, Style};
pub use view::{Loop, Misfit, Node, Seen, Sizes, View, ViewVariable};

use crate::language::ast::{File, Section};
use crate::language::{Diagnostic, Diagnostics, Span};

/// A declaration.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The dataset.
    pub dataset: Dataset,
    /// The views.
    pub views: Vec<View>,
    /// The replicas.
    pub replicas: Vec<Replica>,
}

impl Model {
    /// Resolves each section of a file by itself. The caller runs the checks that involve several sections.
    pub(crate) fn resolve(file: &File, diagnostics: &mut Diagnostics) -> Model {
        let mut model = Model::default();
        let datasets = file.sections.iter().filter_map(|section| match &section.what {
            Section::Dataset(declarations) => Some(declarations),
            _ => None,
        });
        let declarations: Vec<_> = datasets.flatten().collect();
        model.dataset = dataset::dataset(&declarations, diagnostics);
        described::describe(&mut model.dataset, &declarations, diagnostics);
        if !file.sections.iter().any(|s| matches!(s.what, Section::Dataset(_))) && !diagnostics.failed() {
            let start = Span::default();
            diagnostics.push(
                Diagnostic::error(start, "there is no dataset section").help("write dataset { var a [100]float32 }"),
            );
        }
        // Each view would repeat the errors of the dataset.
        if diagnostics.failed() {
            return model;
        }
        let mut budget = dataset::MAX_LEAVES;
        for section in &file.sections {
            if let Section::View(ast) = &section.what {
                if let Some(first) = model.views.iter().find(|view| view.name == ast.name.text) {
                    let error = Diagnostic::error(ast.name.span, format!("there are two views `{}`", ast.name.text));
                    diagnostics.push(error.label(first.span, "first here"));
                }
                model.views.push(see::view(ast, &model.dataset, &mut budget, diagnostics));
            }
        }
        for section in &file.sections {
            if let Section::Replica(ast) = &section.what {
                if let Some(first) = model.replicas.iter().find(|replica| replica.name == ast.name.text) {
                    let error = Diagnostic::error(ast.name.span, format!("there are two replicas `{}`", ast.name.text));
                    diagnostics.push(error.label(first.span, "first here"));
                }
                model.replicas.push(replica::replica(ast, &model.views, diagnostics));
            }
        }
        model
    }

    /// Returns whether the replicas with these numbers store all elements that a view shows.
    pub fn shown_by(&self, view: &View, replicas: &[usize]) -> bool {
        check::stored(std::iter::once(view), &self.some(replicas), &self.views, &self.dataset)
    }

    /// Returns whether a view shows all elements that another one shows, so that the other's bytes can be built from
    /// it.
    pub fn shown_in(&self, view: &View, other: usize) -> bool {
        let stored = Replica { views: vec![other], ..Replica::default() };
        check::stored(std::iter::once(view), &[&stored], &self.views, &self.dataset)
    }

    /// Returns whether the replicas with these numbers store all elements of another replica, so that it can be built
    /// from them.
    pub fn made_of(&self, replica: &Replica, replicas: &[usize]) -> bool {
        let own = replica.views.iter().filter_map(|number| self.views.get(*number)).chain(&replica.rest);
        check::stored(own, &self.some(replicas), &self.views, &self.dataset)
    }

    fn some(&self, replicas: &[usize]) -> Vec<&Replica> {
        replicas.iter().filter_map(|number| self.replicas.get(*number)).collect()
    }

    /// Returns the view with this name.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name == name)
    }
}
