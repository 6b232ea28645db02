//! Parses tokens into a tree by recursive descent. After an error, the parser skips to the next line, so that one run
//! reports all errors.

mod dataset;
mod expression;
mod replica;
mod view;

use super::ast::{At, File, Name, Section};
use super::token::{Kind, Token, cut};
use super::{Diagnostic, Diagnostics, Parsed, Span, suggest};

/// Parses one file. The tree contains everything that has no errors.
pub fn parse(text: &str, file: usize, diagnostics: &mut Diagnostics) -> Parsed {
    let tokens = cut(text, file, diagnostics);
    let end = Span { file, start: text.len(), end: text.len() };
    let mut parser = Parser { words: &tokens.words, at: 0, end, depth: 0, diagnostics };
    let file = parser.file();
    Parsed { file, trivia: tokens.trivia }
}

/// A syntax error. It has already been reported.
pub(super) struct Wrong;

pub(super) type Result<T> = std::result::Result<T, Wrong>;

pub(super) struct Parser<'a, 'd> {
    words: &'a [Token<'a>],
    at: usize,
    end: Span,
    depth: usize,
    diagnostics: &'d mut Diagnostics,
}

const SECTION_KEYWORDS: [&str; 3] = ["dataset", "view", "replica"];
/// Maximum nesting depth. No real declaration reaches it, and it bounds the parser's stack.
const MAX_NESTING_DEPTH: usize = 64;

impl<'a> Parser<'a, '_> {
    fn file(&mut self) -> File {
        let mut sections = Vec::new();
        loop {
            self.skip_ends();
            let Some(word) = self.peek() else { return File { sections } };
            match self.section() {
                Ok(section) => sections.push(At { what: section, span: word.span.to(self.last()) }),
                Err(Wrong) => self.skip_section(word.span),
            }
        }
    }

    fn section(&mut self) -> Result<Section> {
        let word = self.next_word("`dataset`, `view` or `replica`")?;
        let Some(kind) = SECTION_KEYWORDS.into_iter().find(|s| *s == word.text && word.kind == Kind::Word) else {
            let error = Diagnostic::error(word.span, format!("a section cannot begin with `{}`", word.text));
            let help = match word.text {
                "var" | "type" | "const" => Some("put it within dataset { ... } or view NAME { ... }".to_owned()),
                text => suggest(text, SECTION_KEYWORDS.into_iter()),
            };
            self.diagnostics.push(Diagnostic { help, ..error });
            return Err(Wrong);
        };
        if let Some(text) = self.peek().filter(|t| t.kind == Kind::Text) {
            self.at += 1;
            return Ok(Section::Include(kind, unquoted(text.text)));
        }
        Ok(match kind {
            "dataset" => Section::Dataset(self.dataset()?),
            "view" => Section::View(self.view()?),
            _ => Section::Replica(self.replica()?),
        })
    }

    /// Parses the lines between `{` and `}` with `line`.
    fn block<T>(&mut self, what: &str, mut line: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<At<T>>> {
        let open = self.mark("{", what)?;
        self.deeper(open, |parser| {
            let mut lines = Vec::new();
            loop {
                parser.skip_ends();
                let Some(word) = parser.peek() else {
                    let error = Diagnostic::error(open, "this is never closed");
                    parser.diagnostics.push(error.help("write } at its end"));
                    return Err(Wrong);
                };
                if parser.eat("}") {
                    return Ok(lines);
                }
                match line(parser) {
                    Ok(what) => {
                        lines.push(At { what, span: word.span.to(parser.last()) });
                        parser.end_of_line();
                    }
                    Err(Wrong) => parser.skip_line(word.span),
                }
            }
        })
    }

    /// A declaration ends with its line.
    fn end_of_line(&mut self) {
        match self.peek() {
            Some(word) if word.kind != Kind::Newline && !matches!(word.text, ";" | "}") => {
                let error = Diagnostic::error(word.span, format!("`{}` is not expected here", word.text));
                self.diagnostics.push(error.help("begin a new line, or write ; between two declarations"));
                self.skip_line(word.span);
            }
            _ => {}
        }
    }

    /// Parses items separated by commas.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn name(&mut self, what: &str) -> Result<Name> {
        let word = self.next_word(what)?;
        if word.kind != Kind::Word || word.text.contains('-') {
            return self.unexpected(word, what);
        }
        Ok(Name { text: word.text.to_owned(), span: word.span })
    }

    /// Returns a text with its escapes replaced. File names, which are older than escapes, have none.
    fn unescaped(&mut self, word: Token<'_>) -> Result<String> {
        serde_json::from_str(word.text).map_err(|_| {
            let error = Diagnostic::error(word.span, "this text is not written as in JSON");
            self.diagnostics.push(error.help("write \\\\ for a backslash, \\\" for a quote, \\n for a new line"));
            Wrong
        })
    }

    fn mark(&mut self, mark: &str, what: &str) -> Result<Span> {
        let word = self.next_word(what)?;
        if word.kind != Kind::Mark || word.text != mark {
            return self.unexpected(word, what);
        }
        Ok(word.span)
    }

    fn unexpected<T>(&mut self, word: Token<'_>, what: &str) -> Result<T> {
        let found =
            if word.kind == Kind::Newline { "the line ends".to_owned() } else { format!("there is `{}`", word.text) };
        self.diagnostics.push(Diagnostic::error(word.span, format!("{found} where {what} should be")));
        // The end of a line or block stays in the input, because callers look for it.
        if word.kind == Kind::Newline || matches!(word.text, "}" | "{" | ";") {
            self.at = self.at.saturating_sub(1);
        }
        Err(Wrong)
    }

    fn next_word(&mut self, what: &str) -> Result<Token<'a>> {
        match self.peek() {
            Some(word) => {
                self.at += 1;
                Ok(word)
            }
            None => {
                self.diagnostics.push(Diagnostic::error(self.end, format!("the file ends where {what} should be")));
                Err(Wrong)
            }
        }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.words.get(self.at).copied()
    }

    /// Returns whether the next token is this mark or keyword.
    fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|word| word.text == text && word.kind != Kind::Text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let is = self.is(text);
        self.at += usize::from(is);
        is
    }

    /// Returns the position of the last token.
    fn last(&self) -> Span {
        self.at.checked_sub(1).and_then(|i| self.words.get(i)).map_or(self.end, |word| word.span)
    }

    /// Runs one nesting level deeper, up to the maximum depth.
    fn deeper<T>(&mut self, at: Span, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_NESTING_DEPTH {
            let error = Diagnostic::error(at, format!("this is nested more than {MAX_NESTING_DEPTH} levels deep"));
            self.diagnostics.push(error.help("give the inner parts names, with `type`"));
            return Err(Wrong);
        }
        self.depth += 1;
        let done = run(self);
        self.depth -= 1;
        done
    }

    fn skip_ends(&mut self) {
        while self.peek().is_some_and(|word| word.kind == Kind::Newline || word.text == ";") {
            self.at += 1;
        }
    }

    /// Skips to the end of the line, including the blocks that it opens.
    fn skip_line(&mut self, from: Span) {
        // Start over at the line's first word, so that its braces are counted.
        self.at = self.words.partition_point(|word| word.span.start < from.start);
        let mut open = 0usize;
        while let Some(word) = self.peek() {
            match word.text {
                "{" if word.kind == Kind::Mark => open += 1,
                "}" if open == 0 => return,
                "}" => open -= 1,
                ";" if open == 0 => return,
                _ if word.kind == Kind::Newline && open == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips to the token that begins the next section.
    fn skip_section(&mut self, from: Span) {
        self.at = self.words.partition_point(|word| word.span.start <= from.start);
        while let Some(word) = self.peek() {
            let first = self
                .at
                .checked_sub(1)
                .and_then(|i| self.words.get(i))
                .is_none_or(|w| w.kind == Kind::Newline || w.text == "}");
            let next = self.words.get(self.at + 1);
            // A section opens a block or names a file on its own line; within a replica, `view x` does not.
            let opens = || {
                let line = self.words.iter().skip(self.at + 1).take_while(|w| w.kind != Kind::Newline);
                line.take(64).any(|w| w.text == "{") || next.is_some_and(|w| w.kind == Kind::Text)
            };
            if first && SECTION_KEYWORDS.contains(&word.text) && opens() {
                return;
            }
            self.at += 1;
        }
    }
}

/// Returns the text between the quotes.
fn unquoted(text: &str) -> String {
    text.trim_matches('"').to_owned()
}
