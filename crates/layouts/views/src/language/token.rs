//! The tokens of the language.

use logos::Logos;

use super::{Diagnostic, Diagnostics, Span};

/// The kind of a token.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r]+")]
pub enum Kind {
    /// A name or a keyword; its position decides.
    #[regex(r"[\p{L}_][\p{L}\p{N}_]*")]
    #[token("read-only", priority = 50)]
    #[token("on-close", priority = 50)]
    Word,
    /// A number with an optional unit: `12`, `0x1f`, `1_000`, `2s`. Only values have fractions and signed exponents.
    #[regex(r"[0-9][0-9A-Za-z_]*")]
    #[regex(r"[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-][0-9]+")]
    Number,
    /// A quoted text. Declarations of before texts had escapes may end one with a backslash, so that is one as well, unless the
    /// line has another quote.
    #[regex(r#""[^"\n]*"|"([^"\\\n]|\\[^\n])*""#)]
    Text,
    /// A punctuation mark.
    #[regex(r"[{}\[\](),;=+\-*/%.<]")]
    Mark,
    /// The end of a line.
    #[token("\n")]
    Newline,
    /// A comment.
    #[regex(r"//[^\n]*", allow_greedy = true)]
    #[regex(r"/\*([^*]|\*+[^*/])*\*+/")]
    Comment,
}

/// A token with its position.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The kind.
    pub kind: Kind,
    /// The text.
    pub text: &'a str,
    /// The position.
    pub span: Span,
}

/// The tokens for the parser, and the comments and blank lines for the printer.
pub(crate) struct Tokens<'a> {
    pub words: Vec<Token<'a>>,
    pub trivia: Vec<Trivia>,
}

/// Text that the grammar ignores and a formatter keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trivia {
    /// The comment, or `None` for a blank line.
    pub comment: Option<String>,
    /// Whether it has a line of its own.
    pub alone: bool,
    /// The position.
    pub span: Span,
}

/// Splits a text into tokens. Newlines that end nothing are dropped: those within brackets, those after a mark that
/// needs an operand, and those before `=` and `{`.
pub(crate) fn cut<'a>(text: &'a str, file: usize, diagnostics: &mut Diagnostics) -> Tokens<'a> {
    let mut words: Vec<Token<'a>> = Vec::new();
    let mut trivia = Vec::new();
    let (mut depth, mut empty, mut last_end) = (0usize, true, 0);
    for (kind, range) in Kind::lexer(text).spanned() {
        let span = Span { file, start: range.start, end: range.end };
        let slice = text.get(range.clone()).unwrap_or_default();
        let Ok(kind) = kind else {
            diagnostics.push(unknown(slice, span));
            continue;
        };
        match kind {
            Kind::Comment => {
                let alone = text.get(last_end..range.start).unwrap_or_default().contains('\n') || last_end == 0;
                trivia.push(Trivia { comment: Some(slice.trim_end().to_owned()), alone, span });
                // A comment of several lines ends a line, as its newline would.
                empty = false;
            }
            Kind::Newline => {
                if empty {
                    trivia.push(Trivia { comment: None, alone: true, span });
                }
                empty = true;
                let more = words
                    .last()
                    .is_none_or(|w| w.kind == Kind::Newline || (w.kind == Kind::Mark && wants_more(w.text)));
                if depth == 0 && !more {
                    words.push(Token { kind, text: slice, span });
                }
            }
            _ => {
                empty = false;
                match slice {
                    "[" | "(" if kind == Kind::Mark => depth += 1,
                    "]" | ")" if kind == Kind::Mark => depth = depth.saturating_sub(1),
                    // A bracket that was never closed must not swallow the rest of the file.
                    "{" | "}" if kind == Kind::Mark => depth = 0,
                    _ => {}
                }
                if kind == Kind::Mark
                    && matches!(slice, "=" | "{")
                    && words.last().is_some_and(|w| w.kind == Kind::Newline)
                {
                    words.pop();
                }
                words.push(Token { kind, text: slice, span });
                last_end = range.end;
            }
        }
    }
    Tokens { words, trivia }
}

fn wants_more(mark: &str) -> bool {
    !matches!(mark, "}" | "]" | ")" | ";")
}

fn unknown(slice: &str, span: Span) -> Diagnostic {
    let first = slice.chars().next().unwrap_or('?');
    let error = Diagnostic::error(span, format!("{first:?} means nothing here"));
    match first {
        '"' => error.help("close the text with \" on the same line"),
        '#' => error.help("comments begin with //"),
        '>' | ':' => error.help("write the bound of an index as [i < 10]"),
        _ => error,
    }
}
