//! Lists of names, one on each line.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};
use terrace::key;

use crate::output::path_name;

/// Reads the names in a file, or in standard input. A name is a key; it may begin with `./` and end with `/`. Empty lines are skipped.
pub fn read_list(path: &Path) -> Result<Vec<Vec<u8>>> {
    let read = || match path.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        false => fs::read(path),
    };
    let text = read().with_context(|| format!("reading {}", path_name(path)))?;
    let lines = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty());
    let parse = |(number, line): (usize, &[u8])| {
        let name = line.strip_prefix(b"./").unwrap_or(line);
        let name = name.strip_suffix(b"/").unwrap_or(name);
        key::check(name).with_context(|| format!("{}: line {number}", path_name(path)))?;
        Ok(name.to_vec())
    };
    lines.map(parse).collect()
}
