//! The words of a header, without comments and directives.

use super::super::{Error, unsupported};

/// A word or a punctuation mark.
pub(super) struct Word {
    pub text: String,
    /// The current value of `#pragma pack`; 0 if there is none.
    pub pack: u64,
}

/// Returns the words of a header, and its constants as lines of a declaration.
pub(super) fn words(text: &str) -> Result<(Vec<Word>, Vec<String>), Error> {
    let (mut words, mut lines): (Vec<Word>, Vec<String>) = Default::default();
    let (mut pack, mut pushed) = (0, Vec::new());
    for line in without_comments(text).replace("\\\n", " ").lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            split(line, pack, &mut words);
            continue;
        };
        let mut parts = directive.split_whitespace();
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("define"), Some(name), Some(value), None) if value.parse::<i64>().is_ok() => {
                lines.push(format!("const {name} = {value}"))
            }
            (Some("pragma"), Some(first), ..) if first == "pack" || first.starts_with("pack(") => {
                pack = packed(directive, pack, &mut pushed)?;
            }
            _ => {}
        }
    }
    Ok((words, lines))
}

/// Returns the alignment after a `#pragma pack`.
fn packed(directive: &str, pack: u64, pushed: &mut Vec<u64>) -> Result<u64, Error> {
    let said: String = directive.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = said.strip_prefix("pragmapack(").and_then(|rest| rest.strip_suffix(')'));
    match inner.map(|inner| inner.split(',').collect::<Vec<_>>()).as_deref() {
        Some([""]) => Ok(0),
        Some(["pop"]) => Ok(pushed.pop().unwrap_or(0)),
        Some(["push"]) => {
            pushed.push(pack);
            Ok(pack)
        }
        Some(["push", number]) if number.parse::<u64>().is_ok() => {
            pushed.push(pack);
            Ok(number.parse().unwrap_or(0))
        }
        Some([number]) if number.parse::<u64>().is_ok() => Ok(number.parse().unwrap_or(0)),
        _ => unsupported(format!("it has #{}", directive.trim())),
    }
}

fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        let (before, comment) = rest.split_at(at);
        clean.push_str(before);
        clean.push(' ');
        let end = if comment.starts_with("/*") { comment.find("*/").map(|end| end + 2) } else { comment.find('\n') };
        rest = comment.get(end.unwrap_or(comment.len())..).unwrap_or_default();
    }
    clean + rest
}

fn split(line: &str, pack: u64, words: &mut Vec<Word>) {
    let mut open = false;
    for c in line.chars() {
        let part = c.is_alphanumeric() || c == '_';
        match words.last_mut().filter(|_| part && open) {
            Some(word) => word.text.push(c),
            None if !c.is_whitespace() => words.push(Word { text: c.to_string(), pack }),
            None => {}
        }
        open = part;
    }
}
