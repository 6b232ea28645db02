//! Selects files by patterns.

use std::path::Path;

use clap::Args;
use globset::{Glob, GlobMatcher};

/// Selects files of a directory. A pattern is matched against a file's path, its name, and the names of its folders.
#[derive(Args, Default)]
pub struct Filter {
    /// Include only files whose path, name or folder matches. Can be repeated.
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    include: Vec<GlobMatcher>,
    /// Exclude files whose path, name or folder matches. Can be repeated.
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    exclude: Vec<GlobMatcher>,
}

impl Filter {
    /// Returns whether a path, relative to the directory, passes.
    pub fn passes(&self, path: &Path) -> bool {
        let one = |glob: &GlobMatcher| {
            path.ancestors().any(|path| glob.is_match(path) || path.file_name().is_some_and(|name| glob.is_match(name)))
        };
        (self.include.is_empty() || self.include.iter().any(one)) && !self.exclude.iter().any(one)
    }
}

fn glob(text: &str) -> Result<GlobMatcher, globset::Error> {
    Glob::new(text).map(|glob| glob.compile_matcher())
}
