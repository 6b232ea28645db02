//! The dataset section.

use super::{Parser, Result, Wrong};
use crate::language::ast::{At, Declaration, Field, Item, Literal, Name, Type};
use crate::language::token::Kind;
use crate::language::{Diagnostic, suggest};

const DECLARATION_KEYWORDS: [&str; 5] = ["const", "type", "var", "attribute", "fill"];

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
                "attribute" => parser.attribute()?,
                "fill" => {
                    let path = parser.path()?;
                    parser.mark("=", "`=`")?;
                    Declaration::Fill(path, parser.literal()?)
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

    fn attribute(&mut self) -> Result<Declaration> {
        let is_text = |parser: &Self| parser.peek().is_some_and(|word| word.kind == Kind::Text);
        let mut path = None;
        let name = match is_text(self) {
            true => self.attribute_name()?,
            false => {
                let mut words = self.path()?;
                match (words.pop(), self.is("=")) {
                    (Some(name), true) if words.is_empty() => name,
                    (last, _) => {
                        words.extend(last);
                        path = Some(words);
                        self.attribute_name()?
                    }
                }
            }
        };
        self.mark("=", "`=`")?;
        Ok(Declaration::Attribute(path, name, self.literal()?))
    }

    /// Parses the name of an attribute, which other formats may give it: a word or a text.
    fn attribute_name(&mut self) -> Result<Name> {
        match self.peek().filter(|word| word.kind == Kind::Text) {
            Some(word) => {
                self.at += 1;
                Ok(Name { text: self.unescaped(word)?, span: word.span })
            }
            None => self.name("the attribute's name"),
        }
    }

    /// Parses a variable, or a member of one.
    fn path(&mut self) -> Result<Vec<Name>> {
        let mut path = vec![self.name("a variable's name")?];
        while self.eat(".") {
            path.push(self.name("a field's name")?);
        }
        Ok(path)
    }

    fn literal(&mut self) -> Result<At<Literal>> {
        let typed = self.peek().is_some_and(|word| word.kind == Kind::Word && !is_word_value(word.text));
        let kind = if typed { Some(self.name("a value")?) } else { None };
        let first = self.peek().map_or(self.end, |word| word.span);
        let item = self.item()?;
        let start = kind.as_ref().map_or(first, |kind| kind.span);
        Ok(At { what: Literal { kind, item }, span: start.to(self.last()) })
    }

    fn item(&mut self) -> Result<Item> {
        let word = self.next_word("a value")?;
        Ok(match (word.kind, word.text) {
            (Kind::Text, _) => Item::Text(self.unescaped(word)?),
            (Kind::Mark, "[") => {
                let items = match self.is("]") {
                    true => Vec::new(),
                    false => self.deeper(word.span, |parser| parser.list(|parser| parser.item()))?,
                };
                self.mark("]", "`,` or `]`")?;
                Item::List(items)
            }
            (Kind::Mark, "-") => {
                let number = self.next_word("a number")?;
                match number.kind == Kind::Number || matches!(number.text, "inf" | "nan") {
                    true => Item::Word(format!("-{}", number.text)),
                    false => return self.unexpected(number, "a number"),
                }
            }
            (Kind::Number, text) => Item::Word(text.to_owned()),
            (Kind::Word, text) if is_word_value(text) => Item::Word(text.to_owned()),
            _ => return self.unexpected(word, "a value"),
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

/// Returns whether a word is a value, and no type.
fn is_word_value(word: &str) -> bool {
    matches!(word, "nan" | "inf" | "true" | "false")
}
