//! The dataset section.

use super::{Parser, Result, Wrong};
use crate::language::ast::{At, Declaration, Field, Name, Type};
use crate::language::{Diagnostic, suggest};

const DECLARATION_KEYWORDS: [&str; 3] = ["const", "type", "var"];

impl Parser<'_, '_> {
    pub(super) fn dataset(&mut self) -> Result<Vec<At<Declaration>>> {
        // The released parser of the paper accepts a name for the dataset. It has no meaning.
        if !self.is("{") && self.peek().is_some() {
            self.name("`{`")?;
        }
        self.block("`{`", |parser| {
            let word = parser.next_word("`const`, `type` or `var`")?;
            Ok(match word.text {
                "const" => {
                    let name = parser.name("the constant's name")?;
                    parser.mark("=", "`=`")?;
                    Declaration::Constant(name, parser.expression()?)
                }
                "type" => {
                    let name = parser.name("the type's name")?;
                    parser.eat("=");
                    Declaration::Type(name, parser.shape()?)
                }
                "var" => {
                    let names = parser.names("a variable's name")?;
                    Declaration::Variables(names, parser.shape()?)
                }
                text => {
                    let error = Diagnostic::error(word.span, format!("a declaration cannot begin with `{text}`"));
                    let help = suggest(text, DECLARATION_KEYWORDS.into_iter());
                    parser.diagnostics.push(Diagnostic { help, ..error });
                    return Err(Wrong);
                }
            })
        })
    }

    pub(super) fn names(&mut self, what: &str) -> Result<Vec<Name>> {
        self.list(|parser| parser.name(what))
    }

    fn shape(&mut self) -> Result<Type> {
        let Some(word) = self.peek() else { return self.next_word("a type").map(|_| Type::Struct(Vec::new())) };
        if self.eat("[") {
            if self.is("]") {
                let error = Diagnostic::error(word.span.to(word.span), "an array needs a length here");
                self.diagnostics.push(error.help("write [10], [N], or [n] with a variable n that is declared before"));
                return Err(Wrong);
            }
            let lengths = self.list(|parser| parser.expression())?;
            self.mark("]", "`,` or `]`")?;
            let element = self.deeper(word.span, |parser| parser.shape())?;
            return Ok(Type::Array(lengths, Box::new(element)));
        }
        let opens = self.words.get(self.at + 1).is_some_and(|w| w.text == "{");
        if self.is("struct") && opens {
            self.at += 1;
            return Ok(Type::Struct(self.block("`{`", |parser| {
                let names = parser.names("a field's name")?;
                Ok(Field { names, shape: parser.shape()? })
            })?));
        }
        Ok(Type::Named(self.name("a type")?))
    }
}
