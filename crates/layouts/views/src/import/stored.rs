//! Declarations of datasets that take the values of a file along.

use super::{Error, Imported, formatted};
use crate::language::ast::{At, Declaration, Flag, Section, View, ViewDeclaration};
use crate::language::{self, Diagnostics};

impl Imported {
    /// Returns a declaration for a dataset with the file's values. Each variable with a source is a plain array, with the
    /// last index fastest, in the view of its byte order; a replica stores the views. Variables of such a file
    /// without a source, as the header of a NumPy file, are left out.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the language does not allow it.
    pub fn stored(&self) -> Result<String, Error> {
        let mut parsed = language::parse(&self.declaration, 0, &mut Diagnostics::default());
        let mut views: Vec<View> = Vec::new();
        for At { what, .. } in &mut parsed.file.sections {
            match what {
                Section::Dataset(lines) => lines.retain(|line| match &line.what {
                    Declaration::Variables(names, _) => names.iter().any(|name| self.has_values(&name.text)),
                    _ => true,
                }),
                Section::View(view) => self.add_plain(view.clone(), &mut views),
                Section::Replica(_) | Section::Include(..) => {}
            }
        }
        parsed.file.sections.retain(|section| !matches!(section.what, Section::View(_)));
        let mut replica = "replica main {\n".to_owned();
        let alone = views.len() == 1;
        for mut view in views {
            let is_big = view.flags.iter().any(|flag| flag.what == Flag::Big);
            let name = if alone {
                "file"
            } else if is_big {
                "big_endian"
            } else {
                "little_endian"
            };
            replica.push_str(&format!("view {name}\n"));
            view.name.text = name.to_owned();
            let span = view.name.span;
            parsed.file.sections.push(At { what: Section::View(view), span });
        }
        formatted(&format!("{}\n{replica}}}\n", language::print(&parsed)))
    }

    fn has_values(&self, variable: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|(name, _)| name == variable)
    }

    /// Adds a view as plain arrays, to the one with the same flags if there is one.
    fn add_plain(&self, mut view: View, views: &mut Vec<View>) {
        view.flags.retain(|flag| !matches!(flag.what, Flag::Tiled(_) | Flag::RowMinor));
        view.declarations.retain(|line| match &line.what {
            ViewDeclaration::Variable(name, ..) => self.has_values(&name.text),
            ViewDeclaration::Type(..) => true,
        });
        match views.iter_mut().find(|other| other.flags == view.flags) {
            Some(other) => other.declarations.append(&mut view.declarations),
            None => views.push(view),
        }
    }
}
