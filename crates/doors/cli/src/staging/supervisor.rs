//! Runs the end of a job in a process of its own.
//!
//! A process that waits for a file system that does not answer cannot end, not even by SIGKILL, and closing a file there waits, too. So an epilog
//! or another caller waits for a process that opens nothing there.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::FOUND_BAD;
use crate::output::complain;

/// Names the supervisor of a process, by its number.
const SUPERVISOR_VARIABLE: &str = "TERRACE_JOB_SUPERVISOR";
/// The time that the process has to end once it has closed its outputs, or got SIGINT.
const EXIT_LIMIT: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Runs `work` in a process of its own, with the arguments of this one, and returns its exit code; in that process, runs it.
pub fn run_supervised(work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    if is_supervised()? {
        return work();
    }
    // Before the process begins, so that no signal ends this one alone.
    let signals = Signals::new([SIGINT, SIGTERM]).context("listening for signals")?;
    let to_terminal = io::stderr().is_terminal();
    let mut command = Command::new(env::current_exe().context("finding the program's file")?);
    command.args(env::args_os().skip(1)).env(SUPERVISOR_VARIABLE, process::id().to_string());
    // It may hold its own outputs open for ever. Nobody waits for the end of a terminal's.
    command.stdout(Stdio::piped()).stderr(if to_terminal { Stdio::inherit() } else { Stdio::piped() });
    let mut child = command.spawn().context("starting a process")?;
    pass_signals(signals, &child)?;
    let outputs = [
        child.stdout.take().map(|from| pass_on(from, io::stdout())),
        child.stderr.take().map(|from| pass_on(from, io::stderr())),
    ];
    let mut is_told = true;
    for output in outputs.into_iter().flatten() {
        // A panic is told by itself. A reader that has gone wants no more.
        if let Ok(Err(error)) = output.join()
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            complain(&format!("the outcome could not be written: {error}"));
            is_told = false;
        }
    }
    let ended = wait_for_exit(&mut child)?;
    if let Some(signal) = ended.and_then(|ended| ended.signal()).filter(|signal| *signal != SIGINT) {
        complain(&format!("the process that copies was ended by signal {signal}; run the command again"));
    }
    let code = exit_code(ended);
    Ok(if is_told { code } else { code.max(FOUND_BAD) })
}

/// Returns whether this is the process that does the work. It ends with its supervisor.
fn is_supervised() -> Result<bool> {
    let by = env::var(SUPERVISOR_VARIABLE).ok().and_then(|text| text.parse::<i32>().ok());
    let is_by = |parent: Option<Pid>| parent.is_some_and(|parent| by == Some(parent.as_raw_nonzero().get()));
    if !is_by(getppid()) {
        return Ok(false);
    }
    set_parent_process_death_signal(Some(Signal::KILL)).context("watching the supervisor")?;
    if !is_by(getppid()) {
        // It has ended before the line above.
        process::exit(i32::from(FOUND_BAD));
    }
    Ok(true)
}

/// Gives up stdout and stderr, whose end tells the supervisor that all is said.
pub fn leave_outputs() {
    // Where that fails, the outputs end with the process.
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(&nowhere).and_then(|()| dup2_stderr(&nowhere));
    }
}

/// Passes signals on. Ctrl-C ends this process soon, whatever the other one waits for.
fn pass_signals(mut signals: Signals, child: &Child) -> Result<()> {
    let to = Pid::from_child(child);
    let pass = move || {
        for signal in signals.forever() {
            let passed = if signal == SIGTERM { Signal::TERM } else { Signal::INT };
            // It may have ended.
            let _ = kill_process(to, passed);
            if signal == SIGINT {
                thread::sleep(EXIT_LIMIT);
                complain("stopped, but a process that waits for a file system is left; it ends once that answers");
                process::exit(128 + signal);
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(pass).context("starting a thread")?;
    Ok(())
}

/// Copies an output to its end.
fn pass_on(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let passed = io::copy(&mut from, &mut to).and_then(|_| to.flush());
        if passed.is_err() {
            // The other process goes on all the same, and its first error is the one to tell.
            let _ = io::copy(&mut from, &mut io::sink());
        }
        passed
    })
}

/// Waits for a process that has said all. None if it does not end.
fn wait_for_exit(child: &mut Child) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        let ended = child.try_wait().context("waiting for a process")?;
        if ended.is_some() || began.elapsed() >= EXIT_LIMIT {
            return Ok(ended);
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// Returns the exit code for the end of the other process: its own, 130 after Ctrl-C, and 1 if something else ended it.
fn exit_code(ended: Option<ExitStatus>) -> u8 {
    let after_interrupt = |ended: ExitStatus| (ended.signal() == Some(SIGINT)).then_some(128 + SIGINT);
    let code = ended.and_then(|ended| ended.code().or_else(|| after_interrupt(ended)));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FOUND_BAD)
}
