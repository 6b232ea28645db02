//! Finds out whether a library can be loaded into a program.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A reason why the dynamic linker loads no library into a program.
pub enum Obstacle {
    /// It runs with the rights of another user or group.
    OtherRights,
    /// It is statically linked.
    Static,
}

fn find_program(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(name.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns why the dynamic linker would load no library into a program, if it would not.
pub fn obstacle(name: &OsStr) -> Option<Obstacle> {
    let program = find_program(name)?;
    let mode = fs::metadata(&program).ok()?.permissions().mode();
    if mode & 0o6000 != 0 && !rustix::process::geteuid().is_root() {
        return Some(Obstacle::OtherRights);
    }
    let bytes = fs::read(&program).ok()?;
    is_static(&bytes)?.then_some(Obstacle::Static)
}

/// Whether a program of 64 bits has no interpreter, which would load libraries. None for scripts and other files.
fn is_static(program: &[u8]) -> Option<bool> {
    /// The type of the header that names the interpreter.
    const INTERPRETER_TYPE: u32 = 3;
    let number = |at: usize, length: usize| -> Option<u64> {
        let bytes = program.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if program.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        let at = usize::try_from(start.checked_add(header * size)?).ok()?;
        if number(at, 4)? == u64::from(INTERPRETER_TYPE) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_told_from_other_files() {
        let this = fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_static(&this), Some(false));
        assert_eq!(is_static(b"#!/bin/sh\n"), None);
        assert_eq!(is_static(&this[..20]), None);
        // An object file has no program headers, as a static program has none for an interpreter.
        let mut bare = this[..64].to_vec();
        bare[56..58].fill(0);
        assert_eq!(is_static(&bare), Some(true));
    }
}
