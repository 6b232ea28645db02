//! Replica sections.

use super::{Parser, Result, Wrong, unquoted};
use crate::language::ast::{Consistency, Replica, ReplicaLine};
use crate::language::token::Kind;
use crate::language::{Diagnostic, suggest};

const LINE_KEYWORDS: [&str; 6] = ["view", "consistency", "tier", "codec", "requirement", "backend"];
const CONSISTENCY_KEYWORDS: [&str; 3] = ["sync", "async", "on-close"];

impl Parser<'_, '_> {
    pub(super) fn replica(&mut self) -> Result<Replica> {
        let mut name = self.name("the replica's name")?;
        let mut complete = false;
        // `complete` may also stand before the name, unless it is the name.
        if name.text == "complete" && self.peek().is_some_and(|w| w.kind == Kind::Word) {
            name = self.name("the replica's name")?;
            complete = true;
        }
        let mut file = None;
        while let Some(word) = self.peek().filter(|_| !self.is("{")) {
            self.at += 1;
            match (word.kind, word.text) {
                (Kind::Text, text) => file = Some(unquoted(text)),
                (Kind::Word, "complete") => complete = true,
                (Kind::Word, text) => {
                    let error = Diagnostic::error(word.span, format!("there is no flag `{text}` of a replica"));
                    let help = if LINE_KEYWORDS.contains(&text) || CONSISTENCY_KEYWORDS.contains(&text) {
                        Some(format!(
                            "write it on a line within the braces: {}{text} ...",
                            if CONSISTENCY_KEYWORDS.contains(&text) { "consistency " } else { "" }
                        ))
                    } else {
                        suggest(text, ["complete"].into_iter())
                    };
                    self.diagnostics.push(Diagnostic { help, ..error });
                }
                _ => return self.unexpected(word, "`complete` or `{`"),
            }
        }
        let lines = self.block("`{`", |parser| parser.replica_line())?;
        Ok(Replica { name, file, complete, lines })
    }

    fn replica_line(&mut self) -> Result<ReplicaLine> {
        let word = self.next_word("`view` or another line of a replica")?;
        Ok(match word.text {
            "view" => ReplicaLine::View(self.name("a view's name")?),
            "consistency" => self.consistency()?,
            "tier" => ReplicaLine::Tier(self.names("a tier's name")?),
            "codec" => {
                let word = self.next_word("an encoding's name")?;
                match word.kind {
                    Kind::Text => ReplicaLine::Codec(unquoted(word.text)),
                    Kind::Word => ReplicaLine::Codec(word.text.to_owned()),
                    _ => return self.unexpected(word, "an encoding's name"),
                }
            }
            "requirement" => ReplicaLine::Requirement(self.names("a requirement's name")?),
            "backend" => ReplicaLine::Backend(self.name("`raw` or `hdf5`")?),
            text => {
                let error = Diagnostic::error(word.span, format!("a replica's line cannot begin with `{text}`"));
                let help = match CONSISTENCY_KEYWORDS.contains(&text) {
                    true => Some(format!("write consistency {text}")),
                    false => suggest(text, LINE_KEYWORDS.into_iter()),
                };
                self.diagnostics.push(Diagnostic { help, ..error });
                return Err(Wrong);
            }
        })
    }

    fn consistency(&mut self) -> Result<ReplicaLine> {
        let word = self.next_word("`sync`, `async` or `on-close`")?;
        let when = match word.text {
            "sync" => Consistency::Sync,
            "on-close" => Consistency::OnClose,
            "async" => Consistency::Async(self.duration()?),
            text => {
                let error = Diagnostic::error(word.span, format!("there is no consistency `{text}`"));
                let help = suggest(text, CONSISTENCY_KEYWORDS.into_iter());
                self.diagnostics.push(Diagnostic { help, ..error });
                return Err(Wrong);
            }
        };
        Ok(ReplicaLine::Consistency(when, self.eat("atomic")))
    }

    /// Parses `2s` or `500ms`. Returns milliseconds.
    fn duration(&mut self) -> Result<Option<u64>> {
        let Some(word) = self.peek().filter(|word| word.kind == Kind::Number) else { return Ok(None) };
        self.at += 1;
        let parsed = match (word.text.strip_suffix("ms"), word.text.strip_suffix('s')) {
            (Some(number), _) => number.parse::<u64>().ok(),
            (None, Some(number)) => number.parse::<u64>().ok().and_then(|n| n.checked_mul(1000)),
            _ => None,
        };
        if parsed.is_none() {
            let error = Diagnostic::error(word.span, format!("`{}` is no time", word.text));
            self.diagnostics.push(error.help("write it as 2s or 500ms"));
            return Err(Wrong);
        }
        Ok(parsed)
    }
}
