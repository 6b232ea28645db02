//! View sections.

use super::{Parser, Result, Wrong};
use crate::language::ast::{At, Flag, Index, Name, Reference, Selection, Step, View, ViewDeclaration, ViewField};
use crate::language::token::Kind;
use crate::language::{Diagnostic, suggest};

const FLAG_KEYWORDS: [&str; 14] = [
    "read-only",
    "readonly",
    "default",
    "rowmajor",
    "rowminor",
    "columnmajor",
    "tiled",
    "blocked",
    "zorder",
    "little",
    "big",
    "packed",
    "aligned",
    "align",
];

/// A word in the head of a view, with its meaning as a flag, if it has one.
struct Head {
    word: Name,
    flag: Option<Flag>,
    /// Whether it could be a name.
    free: bool,
}

impl Parser<'_, '_> {
    pub(super) fn view(&mut self) -> Result<View> {
        let (name, flags) = self.view_head()?;
        let declarations = self.block("a flag or `{`", |parser| parser.view_declaration())?;
        Ok(View { name, flags, declarations })
    }

    /// Parses the head of a view. Flags may stand before and after the name. The name is the only word that is not a
    /// flag, or else the first word.
    fn view_head(&mut self) -> Result<(Name, Vec<At<Flag>>)> {
        let mut heads = Vec::new();
        while let Some(word) = self.peek().filter(|word| word.kind == Kind::Word) {
            self.at += 1;
            let opened = self.is("(");
            let flag = self.flag(word.text)?;
            let name = Name { text: word.text.to_owned(), span: word.span.to(self.last()) };
            heads.push(Head { word: name, flag, free: !opened && !word.text.contains('-') });
        }
        let first = heads.iter().position(|head| head.flag.is_none());
        let Some(at) = first.or_else(|| heads.iter().position(|head| head.free)) else {
            let at = self.peek().map_or(self.end, |word| word.span);
            self.diagnostics.push(Diagnostic::error(at, "a view needs a name").help("write view NAME { ... }"));
            return Err(Wrong);
        };
        let name = heads.remove(at).word;
        let mut flags = Vec::new();
        for Head { word, flag, .. } in heads {
            match flag {
                Some(what) => flags.push(At { what, span: word.span }),
                None => {
                    let error = Diagnostic::error(word.span, format!("there is no flag `{}`", word.text));
                    let help = suggest(&word.text, FLAG_KEYWORDS.into_iter());
                    self.diagnostics.push(Diagnostic { help, ..error }.label(name.span, "this is the view's name"));
                }
            }
        }
        Ok((name, flags))
    }

    fn flag(&mut self, word: &str) -> Result<Option<Flag>> {
        Ok(Some(match word {
            "read-only" | "readonly" => Flag::ReadOnly,
            "default" => Flag::Default,
            "rowmajor" => Flag::RowMajor,
            "rowminor" | "columnmajor" => Flag::RowMinor,
            "zorder" => Flag::ZOrder,
            "little" => Flag::Little,
            "big" => Flag::Big,
            "packed" => Flag::Packed,
            "aligned" => Flag::Aligned,
            "tiled" | "blocked" | "align" if self.eat("(") => {
                let at = self.last();
                let mut numbers = self.list(|parser| parser.expression())?;
                self.mark(")", "`,` or `)`")?;
                match (word, numbers.len()) {
                    ("tiled", _) => Flag::Tiled(numbers),
                    ("blocked", 1) => Flag::Blocked(numbers.remove(0)),
                    ("align", 1) => Flag::Align(numbers.remove(0)),
                    _ => {
                        self.diagnostics
                            .push(Diagnostic::error(at.to(self.last()), format!("`{word}` takes one number")));
                        return Err(Wrong);
                    }
                }
            }
            _ => return Ok(None),
        }))
    }

    fn view_declaration(&mut self) -> Result<ViewDeclaration> {
        let word = self.next_word("`type` or `var`")?;
        match word.text {
            "type" => {
                let name = self.name("the type's name")?;
                let fields = self.view_fields()?;
                Ok(ViewDeclaration::Type(name, fields, self.name("the type that it is a part of")?))
            }
            "var" => {
                let name = self.name("the variable's name")?;
                if self.is(",") {
                    let error = Diagnostic::error(name.span.after(), "a view declares its variables one by one");
                    self.diagnostics.push(error.help("write a line for each: var a = a"));
                    return Err(Wrong);
                }
                let selection = self.selection()?;
                if !self.is("=") {
                    let word = self.peek();
                    let at = word.map_or(self.end, |word| word.span);
                    let error = Diagnostic::error(at, format!("it is not said what `{}` is a view of", name.text));
                    self.diagnostics.push(error.help(format!("write var {} ... = VARIABLE", name.text)));
                    return Err(Wrong);
                }
                self.at += 1;
                Ok(ViewDeclaration::Variable(name, selection, self.reference()?))
            }
            text => {
                let error = Diagnostic::error(word.span, format!("a view's declaration cannot begin with `{text}`"));
                let help = match text {
                    "const" => Some("constants belong to the dataset section".to_owned()),
                    _ => suggest(text, ["type", "var"].into_iter()),
                };
                self.diagnostics.push(Diagnostic { help, ..error });
                Err(Wrong)
            }
        }
    }

    fn selection(&mut self) -> Result<Selection> {
        let Some(word) = self.peek() else { return Ok(Selection::Whole) };
        if self.eat("[") {
            let indices = if self.is("]") { Vec::new() } else { self.list(|parser| parser.index())? };
            self.mark("]", "`,` or `]`")?;
            let element = self.deeper(word.span, |parser| parser.selection())?;
            return Ok(Selection::Array(indices, Box::new(element)));
        }
        if self.is("{") {
            return Ok(Selection::Fields(self.view_fields()?));
        }
        if word.kind == Kind::Word {
            return Ok(Selection::Named(self.name("a view type")?));
        }
        Ok(Selection::Whole)
    }

    fn index(&mut self) -> Result<Index> {
        let name = self.name("an index's name")?;
        let bound = if self.eat("<") { Some(self.expression()?) } else { None };
        Ok(Index { name, bound })
    }

    fn view_fields(&mut self) -> Result<Vec<At<ViewField>>> {
        self.block("`{`", |parser| {
            let names = parser.names("a field's name")?;
            let selection = parser.selection()?;
            let source = if parser.eat("=") { Some(parser.reference()?) } else { None };
            Ok(ViewField { names, selection, source })
        })
    }

    fn reference(&mut self) -> Result<Reference> {
        let base = self.name("a variable of the dataset")?;
        let mut steps = Vec::new();
        loop {
            let open = self.peek();
            if self.eat("[") {
                let indices = self.list(|parser| parser.expression())?;
                self.mark("]", "`,` or `]`")?;
                let span = open.map_or(self.last(), |word| word.span).to(self.last());
                steps.push(Step::Index(At { what: indices, span }));
            } else if self.eat(".") {
                steps.push(Step::Field(self.name("a field's name")?));
            } else {
                return Ok(Reference { base, steps });
            }
        }
    }
}
