//! A declaration and its included files.

use std::io;
use std::path::Path;

use super::ast::{At, File, Section};
use super::{Diagnostic, Diagnostics, Span, parse};

/// A file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in the include line.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// All files, by the index that a [`Span`] names.
pub type Sources = Vec<Source>;

const MAX_INCLUDED_FILES: usize = 256;
/// Maximum length of a declaration in bytes; a larger file is not a declaration.
const MAX_DECLARATION_BYTES: usize = 16 << 20;

/// Reads a declaration and everything that it includes. `load` gets a name that is relative to the folder of the
/// including file, preceded by that folder.
pub fn read(
    name: &str,
    text: String,
    load: &mut dyn FnMut(&str) -> io::Result<String>,
    diagnostics: &mut Diagnostics,
) -> (File, Sources) {
    let mut sources = vec![Source { name: name.to_owned(), text }];
    let mut file = File::default();
    include(0, &mut sources, &mut file, load, diagnostics);
    (file, sources)
}

fn include(
    number: usize,
    sources: &mut Sources,
    file: &mut File,
    load: &mut dyn FnMut(&str) -> io::Result<String>,
    diagnostics: &mut Diagnostics,
) {
    let Some(Source { name, text }) = sources.get(number).cloned() else { return };
    if text.len() > MAX_DECLARATION_BYTES {
        let start = Span { file: number, start: 0, end: 0 };
        diagnostics.push(Diagnostic::error(start, "the file is larger than 16 MiB, which no declaration is"));
        return;
    }
    for At { what, span } in parse(&text, number, diagnostics).file.sections {
        let Section::Include(_, wanted) = &what else {
            file.sections.push(At { what, span });
            continue;
        };
        let wanted = Path::new(&name).with_file_name(wanted).display().to_string();
        // A repeated include adds nothing. Skipping it also ends include cycles.
        if sources.iter().any(|source| source.name == wanted) {
            diagnostics.push(Diagnostic::warning(span, format!("{wanted:?} is included already")));
            continue;
        }
        if sources.len() >= MAX_INCLUDED_FILES {
            diagnostics.push(Diagnostic::error(span, format!("more than {MAX_INCLUDED_FILES} files are included")));
            continue;
        }
        match load(&wanted) {
            Ok(text) => {
                sources.push(Source { name: wanted, text });
                include(sources.len() - 1, sources, file, load, diagnostics);
            }
            Err(error) => {
                let error = Diagnostic::error(span, format!("{wanted:?} cannot be read: {error}"));
                diagnostics.push(error.help("names are relative to the folder of the file that includes them"));
            }
        }
    }
}
