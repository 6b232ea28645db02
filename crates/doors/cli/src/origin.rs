//! `terrace origin`: files that lie elsewhere, and are read through the store.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use serde_json::json;
use terrace::config::Time;
use terrace::{OriginStatus, Store};

use crate::output::{Show, complain, count, size, table};

/// Adds, lists and removes origins.
#[derive(Subcommand)]
pub enum Origin {
    /// Show the files of a directory or a service below a prefix. Nothing is copied before it is read.
    Add {
        /// The prefix, where nothing may be stored yet.
        prefix: String,
        /// A directory, or a URL: file://, s3://BUCKET/PATH, http(s)://, webdav(s)://, sftp://.
        url: String,
        /// An option of the service, such as region=eu-1 or skip_signature=true. A value of ${NAME} stands for a variable of the
        /// environment. Can be repeated.
        #[arg(long = "option", value_name = "NAME=VALUE")]
        options: Vec<String>,
        /// Ask the origin again for names and attributes after this time [default: 60s].
        #[arg(long, value_name = "TIME")]
        max_age: Option<Time>,
    },
    /// List the origins, and how much of each the store has.
    Ls,
    /// Remove an origin from the store: its names, and the bytes that the store has of it. The origin itself stays as it is.
    Rm {
        /// The prefix of the origin.
        prefix: String,
    },
}

/// Runs a command.
pub fn run(store: &Store, asked: &Origin, show: Show) -> Result<bool> {
    match asked {
        Origin::Add { prefix, url, options, max_age } => {
            store.add_origin(prefix, url, parse_options(options)?, max_age.map(|time| time.0))?;
            show.result(&json!({"prefix": prefix, "url": url}), &format!("{prefix} shows the files of {url}"))?;
        }
        Origin::Ls => list(&store.origins()?, show)?,
        Origin::Rm { prefix } => {
            let removed = store.remove_origin(prefix)?;
            let words = format!(
                "{prefix} removed: the names of {} and {} that were stored of {}",
                count(removed.files, "file"),
                size(removed.cached),
                if removed.files == 1 { "it" } else { "them" }
            );
            show.result(&removed, &words)?;
        }
    }
    Ok(true)
}

fn parse_options(options: &[String]) -> Result<BTreeMap<String, String>> {
    let parse = |option: &String| match option.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(anyhow!("--option {option}: write an option as name=value")),
    };
    options.iter().map(parse).collect()
}

fn list(origins: &[OriginStatus], show: Show) -> Result<()> {
    if show.json {
        return show.value(&origins);
    }
    if origins.is_empty() {
        return show.line("no origins; `terrace origin add` makes one");
    }
    let mut rows = table(&["prefix", "origin", "files", "bytes", "stored here", "asked again after"]);
    for origin in origins {
        rows.add_row([
            origin.prefix.clone(),
            origin.url.clone(),
            origin.files.to_string(),
            size(origin.bytes),
            size(origin.cached),
            format!("{} s", origin.max_age),
        ]);
    }
    show.line(&rows.to_string())?;
    for origin in origins.iter().filter(|origin| origin.left_out > 0) {
        let names = count(origin.left_out, "name");
        complain(&format!(
            "{}: {names} left out, which cannot be keys, or are those of a file and of a folder",
            origin.prefix
        ));
    }
    Ok(())
}
