//! The help of `terrace` itself, which lists the commands by group.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::arguments::Arguments;

const COMMAND_GROUPS: [(&str, &[&str]); 6] = [
    ("Daily use", &["init", "put", "get", "cat", "ls", "rm", "mv", "cp", "check", "sync"]),
    (
        "Where data is, and why",
        &["status", "top", "health", "stat", "locate", "explain", "hot", "predictor", "simulate"],
    ),
    ("Moving data", &["flush", "stage", "evict", "drain", "tune"]),
    ("Care", &["scrub", "repair", "prune", "rebuild", "tiers", "profile", "destroy"]),
    ("Doors and daemon", &["mount", "serve", "node"]),
    ("Datasets and MPI ranks", &["dataset", "view", "dump", "restore"]),
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
}
