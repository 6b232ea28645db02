//! Finds out whether a library can be loaded into a program.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, elf};

/// A reason why the dynamic linker loads no library into a program.
pub enum Obstacle {
    /// It runs with the rights of another user or group.
    OtherRights,
    /// It is statically linked.
    Static,
}

/// Returns the program that a name starts: a path, or the first executable file of the search path.
fn find_program(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(name.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns the reason why the dynamic linker loads no library into a program. None if it does, and for programs that cannot be read.
pub fn find_obstacle(name: &OsStr) -> Option<Obstacle> {
    let program = find_program(name)?;
    let mode = fs::metadata(&program).ok()?.permissions().mode();
    if mode & 0o6000 != 0 && !rustix::process::geteuid().is_root() {
        return Some(Obstacle::OtherRights);
    }
    is_static(&program)?.then_some(Obstacle::Static)
}

/// Whether a 64-bit program names no dynamic linker. None for scripts and other files.
fn is_static(program: &Path) -> Option<bool> {
    let cache = ReadCache::new(File::open(program).ok()?);
    let program = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let is_interpreter = |header: &elf::ProgramHeader64<_>| header.p_type(program.endian()) == elf::PT_INTERP;
    Some(!program.elf_program_headers().iter().any(is_interpreter))
}

/// Returns whether a 64-bit library exports a symbol.
pub fn exports(library: &Path, name: &str) -> bool {
    let Ok(file) = File::open(library) else { return false };
    let cache = ReadCache::new(file);
    let library = ElfFile64::<Endianness, _>::parse(&cache);
    library.is_ok_and(|library| {
        library.dynamic_symbols().any(|symbol| !symbol.is_undefined() && symbol.name() == Ok(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_told_from_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let this = fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_static(Path::new("/proc/self/exe")), Some(false));
        assert_eq!(is_static(&at("script", b"#!/bin/sh\n")), None);
        assert_eq!(is_static(&at("part", &this[..20])), None);
        // Without program headers, the file names no dynamic linker, like a static program.
        let mut bare = this.clone();
        bare[56..58].fill(0);
        let bare = at("bare", &bare);
        assert_eq!(is_static(&bare), Some(true));
    }
}
