//! `terrace mount`: in the foreground, in the background, or around a program.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace::{Files, PutOptions, Store};

use crate::globals::Globals;
use crate::opening;
use crate::output::{Show, complain};

#[derive(Args)]
pub struct Mount {
    /// An empty directory.
    pub directory: PathBuf,
    /// Mount also on a directory with files, which are hidden until the store is unmounted.
    #[arg(long)]
    pub allow_non_empty: bool,
    /// Return as soon as the store is mounted; `umount DIRECTORY` ends the mount.
    #[arg(long)]
    pub daemon: bool,
    /// The process that --daemon starts: it closes stdout and stderr once the store is mounted.
    #[arg(long, hide = true, conflicts_with = "run")]
    pub detached: bool,
    /// Run this program, which alone sees the mount, and unmount when it ends. Needs no privileges. Takes the rest of the line.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true, conflicts_with = "daemon")]
    pub run: Vec<OsString>,
}

pub fn mount(globals: &Globals, wanted: &Mount) -> Result<ExitCode> {
    if wanted.daemon {
        return daemon(&wanted.directory);
    }
    if !wanted.run.is_empty() {
        terrace_mount::enter().context(
            "making a namespace for --run; does the system allow user namespaces (sysctl user.max_user_namespaces)?",
        )?;
    }
    serve(globals, wanted)
}

/// Serves a mount, for a program in the namespace that this process has entered, or for all.
pub fn serve(globals: &Globals, wanted: &Mount) -> Result<ExitCode> {
    if wanted.run.is_empty() && !wanted.allow_non_empty {
        check_empty(&wanted.directory)?;
    }
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
    let show = Show { json: globals.json, quiet: globals.quiet };
    let store = opening::open(&globals.store()?, show)?;
    let files = Files::with(&store, PutOptions::of_environment()?)?;
    let mut mounted = terrace_mount::Mount::begin(&files, &wanted.directory)?;
    let answered = answer(&mut mounted, wanted, &store, &files, signals);
    // After success or failure, flush the written bytes and make their replicas.
    drop(mounted);
    let flushed = files.flush().context("writing what was kept back");
    drop(files);
    let closed = store.close().context("closing the store");
    let code = first_error(answered, [flushed, closed])?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Refuses to hide files from all programs.
fn check_empty(directory: &Path) -> Result<()> {
    // A directory that cannot be read, such as one whose server was killed, is dealt with when it is mounted on.
    let is_empty = fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
    ensure!(
        is_empty,
        "{} is not empty, and a mount would hide what is in it; name an empty directory, or use --allow-non-empty",
        directory.display()
    );
    Ok(())
}

/// Serves the mount until it ends or the program run on it exits. Returns the exit code.
fn answer(
    mounted: &mut terrace_mount::Mount,
    wanted: &Mount,
    store: &Store,
    files: &Files,
    signals: Signals,
) -> Result<i32> {
    let code = match wanted.run.split_first() {
        Some((program, rest)) => {
            let code = run_program(process::Command::new(program).args(rest), signals)?;
            terrace_mount::Mount::end(files, mounted.path())?;
            code
        }
        None => {
            let mut out = std::io::stdout();
            // The reader of this line may have gone, which is not an error.
            let _ = writeln!(out, "{} is mounted on {}", store.dir().display(), mounted.path().display());
            let _ = out.flush();
            if wanted.detached {
                let nowhere = File::options().write(true).open("/dev/null").context("opening /dev/null")?;
                dup2_stdout(&nowhere).and_then(|()| dup2_stderr(&nowhere)).context("giving up stdout and stderr")?;
            }
            end_by(signals, files, mounted.path());
            0
        }
    };
    mounted.wait().context("answering the kernel's requests")?;
    Ok(code)
}

/// Returns the first error and prints the others.
fn first_error(done: Result<i32>, then: [Result<()>; 2]) -> Result<i32> {
    then.into_iter().fold(done, |done, next| match (done, next) {
        (Ok(code), Ok(())) => Ok(code),
        (Ok(_), Err(error)) => Err(error),
        (Err(first), next) => {
            if let Err(error) = next {
                complain(&format!("{error:#}"));
            }
            Err(first)
        }
    })
}

/// The first signal unmounts, and open files stay usable; the second ends the process.
fn end_by(mut signals: Signals, files: &Files, path: &Path) {
    let (files, path) = (files.clone(), path.to_owned());
    thread::spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if let Err(error) = terrace_mount::Mount::end(&files, &path) {
                complain(&format!("unmounting {}: {error}", path.display()));
            }
            if count > 0 {
                process::exit(128 + signal);
            }
        }
    });
}

/// Runs a program, which gets this process's signals, and returns its exit code.
pub fn run_program(program: &mut process::Command, signals: Signals) -> Result<i32> {
    let name = program.get_program().to_owned();
    let mut child = program.spawn().with_context(|| format!("running {}", name.display()))?;
    pass_on(signals, child.id());
    let status = child.wait().with_context(|| format!("waiting for {}", name.display()))?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1))
}

/// Forwards this process's signals to a program.
fn pass_on(mut signals: Signals, child: u32) {
    thread::spawn(move || {
        for signal in signals.forever() {
            let to = i32::try_from(child).ok().and_then(Pid::from_raw);
            if let (Some(to), Some(signal)) = (to, Signal::from_named_raw(signal)) {
                // The program may have ended by itself.
                let _ = kill_process(to, signal);
            }
        }
    });
}

/// Starts this program again without `--daemon`, and waits until it has mounted.
fn daemon(directory: &Path) -> Result<ExitCode> {
    let program = env::current_exe().context("finding this program")?;
    let rest = env::args_os().skip(1).map(|argument| match argument == "--daemon" {
        true => "--detached".into(),
        false => argument,
    });
    let mut child = process::Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("starting the mount in the background")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).context("waiting for the mount")?;
    }
    if line.is_empty() {
        // The started process has reported the reason.
        let _ = child.wait();
        bail!("{} was not mounted", directory.display());
    }
    print!("{line}");
    Ok(ExitCode::SUCCESS)
}
