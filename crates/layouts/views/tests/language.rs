//! The language: printed text parses to the same tree, and no input causes a panic.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use support::Random;
use terrace_views::Diagnostics;
use terrace_views::language::{Parsed, parse, print};

/// Parses a text without errors.
fn good(text: &str) -> Parsed {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse(text, 0, &mut diagnostics);
    assert!(!diagnostics.failed(), "{:?}\n{text}", diagnostics.sorted());
    parsed
}

/// Random texts consist of these words.
const LANGUAGE_WORDS: [&str; 46] = [
    "dataset",
    "view",
    "replica",
    "var",
    "type",
    "const",
    "struct",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    ".",
    "<",
    "\n",
    "a",
    "b",
    "data",
    "int8",
    "float64",
    "10",
    "0x1f",
    "read-only",
    "tiled",
    "\"x\"",
    "// c\n",
    "/* c */",
    "i",
    "default",
    "consistency",
    "async 2s",
    "attribute",
    "fill",
    "1.5",
    "nan",
    "\"a\\\\\"",
    "\"\\\"\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_parses_to_the_same_tree(seed: u64) {
        let file = support::ast::file(&mut Random::new(seed));
        let text = print(&Parsed { file: file.clone(), trivia: Vec::new() });
        prop_assert_eq!(good(&text).file, file, "{}", text);
    }

    #[test]
    fn formatting_is_idempotent(seed: u64) {
        let mut r = Random::new(seed);
        let text = print(&Parsed { file: support::ast::file(&mut r), trivia: Vec::new() });
        // Insert comments and blank lines after words.
        let mut noisy = String::new();
        for line in text.lines() {
            for word in line.split(' ') {
                noisy.push_str(word);
                let quoted = noisy.matches('"').count() % 2 == 1;
                noisy.push_str(if r.chance(5) && !quoted { " /* c */ " } else { " " });
            }
            noisy.push_str(r.of(&["\n", "\n", "\n", "\n\n\n", " // c\n", "\n// c\n"]));
        }
        let once = print(&good(&noisy));
        prop_assert_eq!(&good(&once).file, &good(&text).file);
        prop_assert_eq!(noisy.matches(" c").count(), once.matches(" c").count(), "\n{}\n{}", noisy, once);
        prop_assert_eq!(print(&good(&once)), once);
    }

    #[test]
    fn random_tokens_never_panic(seed: u64) {
        let mut r = Random::new(seed);
        let text = r.list(0, 200, |r| r.of(&LANGUAGE_WORDS)).join(if r.chance(80) { " " } else { "" });
        let mut diagnostics = Diagnostics::default();
        let parsed = parse(&text, 0, &mut diagnostics);
        if !diagnostics.failed() {
            prop_assert_eq!(good(&print(&parsed)).file, parsed.file);
        }
    }

    #[test]
    fn random_text_never_panics(text in ".{0,300}") {
        parse(&text, 0, &mut Diagnostics::default());
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[1]", ""), ("(", ")"), ("-", ""), ("struct { a ", "}")] {
        let inner = if open == "[1]" || open.starts_with('s') { "int8" } else { "1" };
        let body = format!("{}{inner}{}", open.repeat(100_000), close.repeat(100_000));
        let text = if inner == "1" {
            format!("dataset {{ const a = {body} }}")
        } else {
            format!("dataset {{ var a {body} }}")
        };
        let mut diagnostics = Diagnostics::default();
        parse(&text, 0, &mut diagnostics);
        assert!(diagnostics.failed());
    }
}
