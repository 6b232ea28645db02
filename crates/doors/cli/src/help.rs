//! The help of `terrace` itself, which lists the commands by group.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::arguments::Arguments;

const COMMAND_GROUPS: [(&str, &[&str]); 6] = [
    ("Daily use", &["init", "put", "adopt", "get", "cat", "ls", "rm", "mv", "cp", "check", "sync"]),
    (
        "Where data is, and why",
        &["status", "top", "health", "stat", "locate", "explain", "hot", "predictor", "simulate"],
    ),
    ("Moving data", &["job", "flush", "origin", "stage", "evict", "drain", "tune"]),
    ("Care", &["scrub", "repair", "prune", "rebuild", "tiers", "profile", "destroy"]),
    ("Doors and daemon", &["mount", "run", "serve", "node", "cluster"]),
    ("Datasets and MPI ranks", &["dataset", "view", "advise", "dump", "restore"]),
];

/// The command line, with its commands by group in the help.
pub fn command() -> Command {
    let command = Arguments::command();
    let width = COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (heading, names) in COMMAND_GROUPS {
        let _ = writeln!(groups, "{heading}:"); // writing to a string cannot fail
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(groups, "  {name:width$}  {}", about.unwrap_or_default());
        }
        groups.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut named: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        named.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, named);
    }

    /// Calls `check` with each command and its path, such as "terrace dataset add".
    fn walk(command: &Command, path: &str, check: &mut dyn FnMut(&Command, &str)) {
        check(command, path);
        for inner in command.get_subcommands() {
            walk(inner, &format!("{path} {}", inner.get_name()), check);
        }
    }

    #[test]
    fn each_argument_has_a_help_text() {
        walk(&Arguments::command(), "terrace", &mut |command, path| {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{path}: {}", argument.get_id());
            }
        });
    }

    /// An example that has a wrong flag or lacks an argument does not parse.
    #[test]
    fn each_command_has_examples_that_parse() {
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("Example: ")).collect();
            assert!(!examples.is_empty(), "{} has no example", command.get_name());
            for example in examples {
                let words = example.split(' ').skip_while(|word| *word != "terrace");
                if let Err(error) = Arguments::try_parse_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
