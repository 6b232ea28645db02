//! The language of the project, as far as it can be counted. Each number below may only fall: a change that makes one smaller
//! writes the new one down here.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Constants of one word, by crate: a name says subject and unit (`POLL_INTERVAL`, not `POLL`). Crates that exchange files share
/// a number. A crate that is not listed may have none.
const ONE_WORD_CONSTANTS: [(&[&str], usize); 5] = [
    (&["crates/brain/cost"], 5),
    (&["crates/brain/plan"], 3),
    (&["crates/core/codec"], 2),
    (&["crates/core/format", "crates/core/system", "crates/storage", "crates/engine"], 1),
    (&["crates/testkit"], 1),
];

/// Idioms that a reader has to read twice, and how many of each there are in comments, texts and messages.
const BANNED_IDIOMS: [(&str, usize); 8] = [
    ("anew", 0),
    ("so many", 0),
    ("whoever", 0),
    ("of which", 0),
    ("is to be had", 0),
    ("/// The same.\n", 0),
    // Documentation names its subject, rather than saying "What it was asked for".
    ("/// What ", 0),
    ("//! What ", 0),
];

/// Verbs that do not say what a function does.
const OPAQUE_VERBS: [&str; 3] = ["forgive", "hear", "tell"];

/// Lines that print a skip instead of calling `skip` of the testkit.
const UNCOUNTED_SKIPS: usize = 0;

/// Paths of the machines that the project was made on.
const FOREIGN_PATHS: [&str; 2] = ["/work", "../shared"];

/// The one place that may name them: it looks whether the directory is there.
const MAY_NAME_FOREIGN_PATHS: &str = ".ci/run";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The project's texts by their path below its root, without this file and without what `make bench` writes.
fn texts() -> BTreeMap<String, String> {
    let root = root();
    let mut texts = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let name = path.file_name().unwrap().to_str().unwrap();
            let skipped = matches!(name, ".git" | "target" | "__pycache__" | "Cargo.lock")
                || below.starts_with("docs/benchmarks.")
                || below.starts_with("docs/plots")
                || below == "crates/testkit/tests/language.rs";
            if skipped || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                texts.insert(below, text);
            }
        }
    }
    assert!(texts.len() > 500, "only {} files were found: does the test still read the project?", texts.len());
    texts
}

/// The name that a line declares a constant or a static by.
fn declared_constant(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|letter| letter != ' ').trim_start(),
        None => line,
    };
    let rest = line.strip_prefix("const ").or_else(|| line.strip_prefix("static "))?;
    let rest = rest.strip_prefix("mut ").unwrap_or(rest);
    let (name, _) = rest.split_once(':')?;
    name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_').then_some(name)
}

/// Where `text` holds `words` (in lower case) as whole words.
fn occurrences<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(words).map(|(at, _)| at).filter(move |at| {
        let starts_inside = words.starts_with(char::is_alphabetic) && in_word(text[..*at].chars().next_back());
        let ends_inside = words.ends_with(char::is_alphabetic) && in_word(text[at + words.len()..].chars().next());
        !starts_inside && !ends_inside
    })
}

/// Panics if a count is above its number; says which numbers may be lowered.
fn hold(counts: impl IntoIterator<Item = (String, Vec<String>, usize)>) {
    let mut broken = String::new();
    for (what, places, limit) in counts {
        let count = places.len();
        if count > limit {
            broken += &format!("{what}: {count}, and {limit} are allowed:\n  {}\n", places.join("\n  "));
        } else if count < limit {
            // Not `println`: the output of a test that passes is not shown.
            let note = format!("{what}: {count} are left; write {count} instead of {limit} into {}\n", file!());
            std::io::stderr().write_all(note.as_bytes()).unwrap();
        }
    }
    assert!(broken.is_empty(), "{broken}");
}

#[test]
fn constants_say_subject_and_unit() {
    let mut places = vec![Vec::new(); ONE_WORD_CONSTANTS.len() + 1];
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let is_in = |folder: &&str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let group = ONE_WORD_CONSTANTS.iter().position(|(folders, _)| folders.iter().any(is_in));
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = declared_constant(line).filter(|name| !name.contains('_')) {
                places[group.unwrap_or(ONE_WORD_CONSTANTS.len())].push(format!("{path}:{}: {name}", number + 1));
            }
        }
    }
    let all = [(["crates that are not listed"].as_slice(), 0)];
    let groups = ONE_WORD_CONSTANTS.iter().chain(&all);
    hold(groups.zip(places).map(|((folders, limit), places)| {
        (format!("constants of one word in {}", folders.join(", ")), places, *limit)
    }));
}

#[test]
fn banned_idioms_do_not_come_back() {
    let texts = texts();
    hold(BANNED_IDIOMS.map(|(idiom, limit)| {
        let idiom = idiom.to_lowercase();
        let mut places = Vec::new();
        for (path, text) in &texts {
            let text = text.to_lowercase();
            for at in occurrences(&text, &idiom) {
                places.push(format!("{path}:{}", text[..at].lines().count().max(1)));
            }
        }
        (format!("{idiom:?}"), places, limit)
    }));
}

#[test]
fn functions_say_what_they_do() {
    let mut places = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".rs")) {
        for (number, line) in text.lines().enumerate() {
            let is_opaque =
                |verb: &&&str| line.contains(&format!("fn {verb}(")) || line.contains(&format!("fn {verb}<"));
            places.extend(OPAQUE_VERBS.iter().find(is_opaque).map(|verb| format!("{path}:{}: {verb}", number + 1)));
        }
    }
    hold([("functions with an opaque verb as their name".to_owned(), places, 0)]);
}

/// A skip that only a line of output shows is not counted, and does not fail where `TERRACE_TEST_REQUIRE` names the need.
#[test]
fn only_the_testkit_prints_that_a_test_is_skipped() {
    let texts = texts();
    let tests = texts.iter().filter(|(path, _)| {
        path.starts_with("crates/") && !path.starts_with("crates/testkit/") && path.ends_with(".rs")
    });
    let mut places = Vec::new();
    for (path, text) in tests {
        let lines = text.lines().enumerate().filter(|(_, line)| line.contains("\"skipped: "));
        places.extend(lines.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    hold([("skips that the testkit does not count".to_owned(), places, UNCOUNTED_SKIPS)]);
}

#[test]
fn no_text_names_a_path_of_the_machine_it_was_made_on() {
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| *path != MAY_NAME_FOREIGN_PATHS) {
        for foreign in FOREIGN_PATHS {
            for at in occurrences(text, foreign) {
                // "/scratch/work" and "$DIR/work" are others' paths.
                let before = text[..at].chars().next_back();
                let is_absolute = !before.is_some_and(|letter| letter.is_alphanumeric() || "_}~/.-".contains(letter));
                if is_absolute || foreign.starts_with('.') {
                    found.push(format!("{path}:{}: {foreign}", text[..at].lines().count().max(1)));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
