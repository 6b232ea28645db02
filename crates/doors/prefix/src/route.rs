//! Resolves dots and symbolic links in paths that begin below the prefix.

use std::ffi::CString;

use terrace::files::{FileError, FileResult, Stat};
use terrace::{Files, Kind, key};

/// The number of symbolic links in a path after which the kernel gives up, too.
const MAX_LINKS: usize = 40;

/// Whether a symbolic link at a path's end is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It is followed.
    Follow,
    /// It is meant itself.
    Keep,
}

/// The place that a path leads to.
pub enum Route {
    /// A path of the kernel's, other than the given one.
    Elsewhere(CString),
    /// A path of the store, and the attributes of what is there.
    Below(Vec<u8>, Option<Stat>),
}

/// Returns the part of an absolute path behind a prefix, which has no slash at its end.
pub fn behind_prefix<'a>(prefix: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Resolves a path that leads from `base`, a directory of the store that is shown below `prefix`, along `rest`.
pub fn resolve(files: &Files, prefix: &[u8], base: Vec<u8>, rest: &[u8], last: LastLink) -> FileResult<Route> {
    let trailing = rest.ends_with(b"/") || rest.ends_with(b"/.");
    let last = if trailing { LastLink::Follow } else { last };
    let parts = split(rest);
    if !parts.contains(&b"..".as_slice()) {
        let path = join(&base, &parts);
        if let Some(stat) = plain(files, &path, last)? {
            return match &stat {
                Some(stat) if trailing && stat.kind != Kind::Directory => {
                    Err(FileError::NotDirectory(key::show(&path)))
                }
                _ => Ok(Route::Below(path, stat)),
            };
        }
    }
    let todo = parts.into_iter().rev().map(<[u8]>::to_vec).collect();
    walk(files, prefix, base, todo, last, 0)
}

/// Looks a path up as a key. Returns none if a symbolic link has to be resolved first, and no attributes if nothing is there.
fn plain(files: &Files, path: &[u8], last: LastLink) -> FileResult<Option<Option<Stat>>> {
    match files.stat(path) {
        Ok(stat) if stat.kind == Kind::Symlink && last == LastLink::Follow => Ok(None),
        Ok(stat) => Ok(Some(Some(stat))),
        Err(FileError::NotFound(_) | FileError::NotDirectory(_)) => {
            let above = path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &path[..at]);
            match files.stat(above) {
                Ok(above) if above.kind == Kind::Directory => Ok(Some(None)),
                _ => Ok(None),
            }
        }
        Err(error) => Err(error),
    }
}

/// Follows a path name by name. `todo` has the names that follow, the next one at its end.
fn walk(
    files: &Files,
    prefix: &[u8],
    mut here: Vec<u8>,
    mut todo: Vec<Vec<u8>>,
    last: LastLink,
    mut links: usize,
) -> FileResult<Route> {
    let mut stat = None;
    while let Some(name) = todo.pop() {
        if name == b".." {
            if here.is_empty() {
                return leave(files, prefix, todo, last, links);
            }
            let above = here.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            here.truncate(above);
            stat = None;
            continue;
        }
        let next = join(&here, &[&name]);
        stat = match files.stat(&next) {
            Ok(stat) => Some(stat),
            Err(FileError::NotFound(_)) if todo.is_empty() => None,
            Err(error) => return Err(error),
        };
        let is_link = stat.as_ref().is_some_and(|stat| stat.kind == Kind::Symlink);
        if is_link && !(todo.is_empty() && last == LastLink::Keep) {
            links += 1;
            if links > MAX_LINKS {
                return Err(FileError::TooManyLinks(key::show(&next)));
            }
            let to = files.read_link(&next)?;
            let rest = match behind_prefix(prefix, &to) {
                Some(rest) => {
                    here.clear();
                    rest
                }
                None if to.starts_with(b"/") => {
                    let rest = todo.into_iter().rev();
                    return elsewhere(rest.fold(to, |text, name| [text.as_slice(), b"/", &name].concat()));
                }
                None => &to,
            };
            todo.extend(split(rest).into_iter().rev().map(<[u8]>::to_vec));
            stat = None;
            continue;
        }
        here = next;
    }
    let stat = match stat {
        None => files.stat(&here).ok(),
        found => found,
    };
    Ok(Route::Below(here, stat))
}

/// Continues a path that has left the prefix upwards. It may come back.
fn leave(files: &Files, prefix: &[u8], todo: Vec<Vec<u8>>, last: LastLink, links: usize) -> FileResult<Route> {
    let mut names: Vec<&[u8]> = split(prefix);
    names.pop();
    for name in todo.iter().rev() {
        match name.as_slice() {
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let text = names.iter().fold(Vec::new(), |text, name| [text.as_slice(), b"/", name].concat());
    let text = if text.is_empty() { b"/".to_vec() } else { text };
    match behind_prefix(prefix, &text) {
        Some(rest) => {
            walk(files, prefix, Vec::new(), split(rest).into_iter().rev().map(<[u8]>::to_vec).collect(), last, links)
        }
        None => elsewhere(text),
    }
}

fn elsewhere(path: Vec<u8>) -> FileResult<Route> {
    let invalid = |path: &[u8]| FileError::Invalid { path: key::show(path), reason: "a path has no zero bytes" };
    CString::new(path).map(Route::Elsewhere).map_err(|error| invalid(&error.into_vec()))
}

/// Returns the names of a path without those that mean nothing.
fn split(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect()
}

fn join(base: &[u8], names: &[&[u8]]) -> Vec<u8> {
    let mut path = base.to_vec();
    for name in names {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    path
}
