//! `terrace run`: a program sees the store below a path, by a mount, by the preload library and a supervisor, or by HDF5's driver.

pub mod dumped;
mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace::{Files, PutOptions};
use terrace_supervise::Supervision;

use crate::globals::Globals;
use crate::mount::Mount;
use crate::output::{Show, note};
use crate::{mount, opening};
use program::Obstacle;

const PRELOAD_LIBRARY: &str = "libterrace_preload.so";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// In a folder of its own, because HDF5 loads all libraries of a folder of plug-ins.
const HDF5_PLUGIN: &str = "terrace/hdf5/libterrace_hdf5.so";
const HDF5_PLUGIN_VARIABLE: &str = "HDF5_PLUGIN_PATH";
const HDF5_DRIVER_VARIABLE: &str = "HDF5_DRIVER";
const MISSING_LIBRARY_ADVICE: &str =
    "`make install PREFIX=...` installs it, or mount the store: `terrace run --by mount`";
/// The variables for a program, and their values.
type Variables = Vec<(&'static str, OsString)>;

#[derive(Args)]
pub struct Run {
    /// The path below which the program sees the store.
    #[arg(long, default_value = "/terrace", env = "TERRACE_PREFIX", value_name = "PATH")]
    pub prefix: PathBuf,
    /// Show the store in this way, and in no other.
    #[arg(long, value_enum)]
    pub by: Option<ShownBy>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// How a program is shown the store.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShownBy {
    /// A mount in a namespace of its own.
    Mount,
    /// A library that answers the program's calls.
    Preload,
    /// The library, and a supervisor that answers the system calls of programs which enter the kernel themselves. Setuid programs then run
    /// with your rights only.
    Supervisor,
    /// A driver of HDF5, for the files that the program uses by HDF5 1.14 or 2.
    Hdf5,
}

pub fn run(globals: &Globals, wanted: &Run) -> Result<ExitCode> {
    let mount = Mount {
        directory: wanted.prefix.clone(),
        allow_non_empty: false,
        daemon: false,
        detached: false,
        run: wanted.program.clone(),
    };
    match wanted.by {
        Some(ShownBy::Mount) => mount::mount(globals, &mount),
        Some(ShownBy::Hdf5) => hdf5(globals, wanted),
        None if may_mount(&wanted.prefix) && terrace_mount::enter().is_ok() => mount::serve(globals, &mount),
        _ => preload(globals, wanted),
    }
}

/// Whether the store may be mounted on a path.
fn may_mount(path: &Path) -> bool {
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    is_empty && File::options().read(true).write(true).open("/dev/fuse").is_ok()
}

fn preload(globals: &Globals, wanted: &Run) -> Result<ExitCode> {
    let library = find_library(PRELOAD_LIBRARY, MISSING_LIBRARY_ADVICE)?;
    let is_supervised = wanted.program.first().map_or(Ok(false), |program| needs_supervisor(program, wanted))?;
    let variables = vec![(PRELOAD_VARIABLE, before_others(library, PRELOAD_VARIABLE))];
    run_with(globals, wanted, variables, is_supervised)
}

/// Shows the store to HDF5 alone. Both variables are set, because programs fail that do not find the driver.
fn hdf5(globals: &Globals, wanted: &Run) -> Result<ExitCode> {
    let plugin = find_library(HDF5_PLUGIN, MISSING_LIBRARY_ADVICE)?;
    let folder = plugin.parent().unwrap_or(Path::new("/")).to_owned();
    let plugins = before_others(folder, HDF5_PLUGIN_VARIABLE);
    let variables = vec![(HDF5_PLUGIN_VARIABLE, plugins), (HDF5_DRIVER_VARIABLE, "terrace".into())];
    run_with(globals, wanted, variables, false)
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

/// Runs the program with these variables, by which a library finds into it, and under a supervisor if it `is_supervised`.
fn run_with(globals: &Globals, wanted: &Run, variables: Variables, is_supervised: bool) -> Result<ExitCode> {
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
    let code = match is_supervised {
        true => supervise(command, signals, &dir, show, &wanted.prefix)?,
        false => mount::run_program(&mut command, signals)?,
    };
    // What cannot be removed is empty, and the next run tries again.
    let _ = terrace_prefix::locks::sweep(&dir);
    let _ = terrace_prefix::folders::sweep(&dir);
    // Programs leave pending replicas to a later process, which is this one.
    opening::open(&dir, show)?.close().context("closing the store")?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Whether the library alone does not serve a program, or the user asks for more.
fn needs_supervisor(program: &OsStr, wanted: &Run) -> Result<bool> {
    match (wanted.by, program::find_obstacle(program)) {
        (_, Some(Obstacle::OtherRights)) => bail!(
            "{} runs with the rights of another user or group, so no library can be loaded into it; create the directory {}, on which the \
             store can be mounted for it, and allow /dev/fuse and user namespaces",
            program.display(),
            wanted.prefix.display()
        ),
        (Some(ShownBy::Preload), Some(Obstacle::Static)) => bail!(
            "{} is statically linked, so no library can be loaded into it; leave `--by preload` out, and a supervisor answers its system \
             calls",
            program.display()
        ),
        (by, obstacle) => Ok(by == Some(ShownBy::Supervisor) || obstacle.is_some()),
    }
}

/// Runs a program whose system calls this process answers. Returns its exit code.
fn supervise(mut command: Command, signals: Signals, dir: &Path, show: Show, prefix: &Path) -> Result<i32> {
    if !show.quiet {
        note(
            "a supervisor answers the program's system calls; setuid programs that it starts run with your rights only",
        );
    }
    let store = opening::open(dir, show)?;
    let files = Files::with(&store, PutOptions::of_environment()?)?;
    let supervision = Supervision::prepare(&mut command).context("preparing the supervisor")?;
    let serving = supervision.serve(&files, prefix).context("starting the supervisor")?;
    let code = mount::run_program(&mut command, signals).map_err(explain_refusal);
    // Then the supervisor of a program that could not be started ends.
    drop(command);
    serving.finish().context("placing the files that the program has written")?;
    code
}

/// Adds advice to the error of a system that allows no filter.
fn explain_refusal(error: anyhow::Error) -> anyhow::Error {
    let refusals = [Errno::PERM, Errno::INVAL, Errno::BUSY, Errno::NOSYS];
    let cause = error.downcast_ref::<io::Error>().and_then(Errno::from_io_error);
    match cause.is_some_and(|cause| refusals.contains(&cause)) {
        true => error.context(
            "this system may allow no filter of system calls (seccomp) here; then create an empty directory for --prefix, and allow \
             /dev/fuse and user namespaces",
        ),
        false => error,
    }
}

/// Finds a library beside this program, or where `make install` puts it. `advice` tells what to do where it is not.
fn find_library(name: &str, advice: &str) -> Result<PathBuf> {
    let program = env::current_exe().context("finding this program")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(name), folder.join("../lib").join(name)];
    match places.iter().find(|path| path.exists()) {
        Some(found) => found.canonicalize().with_context(|| format!("looking for {}", found.display())),
        None => bail!("{name} is neither in {} nor in ../lib from there; {advice}", folder.display()),
    }
}
