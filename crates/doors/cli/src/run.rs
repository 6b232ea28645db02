//! `terrace run`: a program sees the store below a path, by a mount, by the preload library, or by HDF5's driver.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{self, ShownBy};
use crate::globals::Globals;
use crate::output::Show;
use crate::{mount, opening};

const PRELOAD_LIBRARY: &str = "libterrace_preload.so";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// In a folder of its own, because HDF5 loads all libraries of a folder of plug-ins.
const HDF5_PLUGIN: &str = "terrace/hdf5/libterrace_hdf5.so";
const HDF5_PLUGIN_VARIABLE: &str = "HDF5_PLUGIN_PATH";
const HDF5_DRIVER_VARIABLE: &str = "HDF5_DRIVER";
/// The variables for a program, and their values.
type Variables = Vec<(&'static str, OsString)>;

pub fn run(globals: &Globals, wanted: &arguments::Run) -> Result<ExitCode> {
    let mount = arguments::Mount {
        directory: wanted.prefix.clone(),
        daemon: false,
        detached: false,
        run: wanted.program.clone(),
    };
    match wanted.by {
        Some(ShownBy::Mount) => mount::mount(globals, &mount),
        Some(ShownBy::Preload) => preload(globals, wanted),
        Some(ShownBy::Hdf5) => hdf5(globals, wanted),
        None if may_mount(&wanted.prefix) && terrace_mount::enter().is_ok() => mount::serve(globals, &mount),
        None => preload(globals, wanted),
    }
}

/// Whether the store may be mounted on a path.
fn may_mount(path: &Path) -> bool {
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    is_empty && File::options().read(true).write(true).open("/dev/fuse").is_ok()
}

fn preload(globals: &Globals, wanted: &arguments::Run) -> Result<ExitCode> {
    let library = find_library(PRELOAD_LIBRARY)?;
    let program = wanted.program.first();
    if let Some(program) = program
        && let Some(reason) = find_program(program).and_then(|path| reason_against_preload(&path))
    {
        bail!(
            "{} {reason}, so no library can be loaded into it; create the directory {}, on which the store can be mounted for it, and \
             allow /dev/fuse and user namespaces",
            program.display(),
            wanted.prefix.display()
        );
    }
    run_with(globals, wanted, vec![(PRELOAD_VARIABLE, before_others(library, PRELOAD_VARIABLE))])
}

/// Shows the store to HDF5 alone. Both variables are set, because programs fail that do not find the driver.
fn hdf5(globals: &Globals, wanted: &arguments::Run) -> Result<ExitCode> {
    let plugin = find_library(HDF5_PLUGIN)?;
    let folder = plugin.parent().unwrap_or(Path::new("/")).to_owned();
    let plugins = before_others(folder, HDF5_PLUGIN_VARIABLE);
    run_with(globals, wanted, vec![(HDF5_PLUGIN_VARIABLE, plugins), (HDF5_DRIVER_VARIABLE, "terrace".into())])
}

/// Puts a path before those that a variable has, if any.
fn before_others(path: PathBuf, variable: &str) -> OsString {
    let mut paths = path.into_os_string();
    if let Some(others) = env::var_os(variable).filter(|others| !others.is_empty()) {
        paths.push(":");
        paths.push(others);
    }
    paths
}

/// Runs the program with these variables, by which a library finds into it.
fn run_with(globals: &Globals, wanted: &arguments::Run, variables: Variables) -> Result<ExitCode> {
    if !wanted.prefix.is_absolute() {
        bail!("{} is no absolute path; programs see the store below one, such as /terrace", wanted.prefix.display());
    }
    let Some((program, rest)) = wanted.program.split_first() else { bail!("no program is named") };
    let show = Show { json: globals.json, quiet: globals.quiet };
    let dir = globals.store()?;
    // Creates a default store, and finds out whether it can be opened.
    drop(opening::open(&dir, show)?);
    let dir = dir.canonicalize().with_context(|| format!("looking for {}", dir.display()))?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
    let mut command = Command::new(program);
    command.args(rest).envs(variables);
    command.env("TERRACE_PREFIX", &wanted.prefix).env("TERRACE_STORE", &dir);
    let code = mount::run_program(&mut command, signals)?;
    // Programs leave pending replicas to a later process, which is this one.
    opening::open(&dir, show)?.close().context("closing the store")?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Finds a library beside this program, or where `make install` puts it.
fn find_library(name: &str) -> Result<PathBuf> {
    let program = env::current_exe().context("finding this program")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(name), folder.join("../lib").join(name)];
    match places.iter().find(|path| path.exists()) {
        Some(found) => found.canonicalize().with_context(|| format!("looking for {}", found.display())),
        None => bail!(
            "{name} is neither in {} nor in ../lib from there; `make install PREFIX=...` installs it, or mount the store: \
             `terrace run --by mount`",
            folder.display()
        ),
    }
}

fn find_program(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(name.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns why the dynamic linker would not load a library into a program, if it would not.
fn reason_against_preload(program: &Path) -> Option<&'static str> {
    let mode = fs::metadata(program).ok()?.permissions().mode();
    if mode & 0o6000 != 0 && !rustix::process::geteuid().is_root() {
        return Some("runs with the rights of another user or group");
    }
    let bytes = fs::read(program).ok()?;
    is_static(&bytes)?.then_some("is statically linked")
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
