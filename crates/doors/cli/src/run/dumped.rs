//! `terrace dump run`: replaces this process by a program that has the library for checkpoints.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use nix::sys::personality::{self, Persona};
use terrace::Store;
use terrace_dump::flags::{RUN_VARIABLE, RunFlags};

use super::program::{Obstacle, exports, find_obstacle};
use super::{PRELOAD_VARIABLE, before_others, find_library};
use crate::globals::Globals;

const CHECKPOINT_LIBRARY: &str = "libterrace_dump_run.so";
/// A symbol of that library, by which it begins its work. A build without MPI lacks it, and does nothing.
const CHECKPOINT_LIBRARY_START: &str = "__libc_start_main";
/// Stands for TERRACE_NODE in the directory of a store, or for the node's number.
const NODE_WORD: &str = "{node}";
const LIBRARY_ADVICE: &str = "`make install-mpi PREFIX=...` installs it";

/// Checks that this node has its store, before the ranks wait for each other in MPI. Without the name of the node, only the ranks together know
/// its number.
fn check_store(store: &Path) -> Result<()> {
    let text = store.to_string_lossy();
    let named: PathBuf = match std::env::var("TERRACE_NODE") {
        Ok(node) => text.replace(NODE_WORD, &node).into(),
        Err(_) if text.contains(NODE_WORD) => return Ok(()),
        Err(_) => store.to_owned(),
    };
    Ok(Store::check_dir(&named)?)
}

/// Replaces this process by the program, whose addresses then are the same in each process.
pub fn become_program(globals: &Globals, flags: &RunFlags) -> Result<Infallible> {
    let Some((program, arguments)) = flags.program.split_first() else { bail!("no program is named") };
    let store = globals.store()?;
    check_store(&store)?;
    let reason = match find_obstacle(program) {
        Some(Obstacle::Static) => Some("is statically linked; link it dynamically"),
        Some(Obstacle::OtherRights) => Some("runs with the rights of another user or group; remove its setuid bit"),
        None => None,
    };
    if let Some(reason) = reason {
        bail!("no library can be loaded into {}, because it {reason}", program.display());
    }
    let library = find_library(CHECKPOINT_LIBRARY, LIBRARY_ADVICE)?;
    if !exports(&library, CHECKPOINT_LIBRARY_START) {
        bail!("{} makes no checkpoints, because it was built without MPI; {LIBRARY_ADVICE}", library.display());
    }
    let fixed = personality::get().and_then(|persona| personality::set(persona | Persona::ADDR_NO_RANDOMIZE));
    fixed.context(
        "turning off the randomization of addresses (personality); allow it in the container's seccomp profile",
    )?;
    let mut command = process::Command::new(program);
    command.args(arguments).env(PRELOAD_VARIABLE, before_others(library, PRELOAD_VARIABLE));
    command.env("TERRACE_STORE", store).env(RUN_VARIABLE, serde_json::to_string(flags)?);
    Err(command.exec()).with_context(|| format!("starting {}", program.display()))
}
