//! The supervisor: a thread receives a program's calls, and another answers those that concern the store.

// A forked process installs the filter before it becomes the program.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use libc::seccomp_notif;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use terrace::files::FileError;
use terrace::{Error, Files};

use crate::answer::CallAnswers;
use crate::calls::{self, PathCall};
use crate::filter::CallFilter;
use crate::listener::{CallListener, CallReply};
use crate::listing::ShownDirectories;
use crate::memory::Caller;
use crate::paths::StorePrefix;
use crate::sieve::CallSieve;
use crate::spools::Spools;

/// The folder in the store's directory for listings, each supervisor's in one of its own.
const LISTINGS_FOLDER: &str = "preload/listings";

/// A program that will be supervised.
pub struct Supervision {
    /// The other end is the program's.
    socket: UnixStream,
}

/// A supervisor at work.
pub struct ServingSupervisor {
    thread: JoinHandle<Result<(), FileError>>,
    /// The supervisor ends when this is dropped.
    stop: UnixStream,
}

impl Supervision {
    /// Arranges that the kernel asks at the calls of this program, and of all that it starts. They lose the right to gain rights: setuid
    /// programs run with those of the user.
    ///
    /// # Errors
    /// If no socket can be made. If the system does not allow the filter, the start of the program fails.
    pub fn prepare(command: &mut Command) -> io::Result<Supervision> {
        let (ours, theirs) = UnixStream::pair()?;
        let filter = CallFilter::new(&calls::numbers());
        let install = move || send(&theirs, &filter.install()?);
        // SAFETY: the closure makes system calls only, and none that the filter asks about.
        unsafe { command.pre_exec(install) };
        Ok(Supervision { socket: ours })
    }

    /// Starts to answer the program's calls with paths below `prefix`.
    ///
    /// # Errors
    /// If the thread or its files cannot be made.
    pub fn serve(self, files: &Files, prefix: &Path) -> io::Result<ServingSupervisor> {
        let store = files.store().dir();
        let mut answers = CallAnswers {
            files: files.clone(),
            prefix: Arc::new(StorePrefix::new(prefix.as_os_str().as_bytes())),
            spools: Spools::new(store.to_owned())?,
            listings: ShownDirectories::new(&store.join(LISTINGS_FOLDER))?,
        };
        let (stop, stopped) = UnixStream::pair()?;
        let run = move || {
            let served = serve(&self.socket, &stopped, &mut answers);
            // In any case, what was written is placed.
            answers.spools.place_closed(&answers.files);
            answers.spools.finish(&answers.files).and(served)
        };
        let thread = std::thread::Builder::new().name("terrace-supervise".into()).spawn(run)?;
        Ok(ServingSupervisor { thread, stop })
    }
}

impl ServingSupervisor {
    /// Ends the supervisor, once the program has ended, and places what was written. What the program left running gets errors.
    ///
    /// # Errors
    /// If a file could not be placed, or the kernel did not ask any more.
    pub fn finish(self) -> Result<(), FileError> {
        drop(self.stop);
        let ended = || failure(io::Error::other("the supervisor has panicked; what it printed says where"));
        self.thread.join().unwrap_or_else(|_| Err(ended()))
    }
}

fn failure(cause: io::Error) -> FileError {
    FileError::from(Error::Io { context: "answering the program's system calls".into(), cause })
}

/// Serves until the program has ended or `stopped`. One thread lets calls through that do not concern the store, this one answers the others:
/// a program that uses the store by a library makes calls while it holds locks for which this thread waits.
fn serve(socket: &UnixStream, stopped: &UnixStream, answers: &mut CallAnswers) -> Result<(), FileError> {
    let Some(listener) = receive(socket).map_err(failure)? else { return Ok(()) };
    let listener = CallListener::new(listener);
    let (held, calls) = channel();
    let (wake, woken) = UnixStream::pair().map_err(failure)?;
    let sieve = answers.sieve();
    thread::scope(|scope| {
        let name = "terrace-calls".to_owned();
        let receiving = thread::Builder::new().name(name).spawn_scoped(scope, || {
            // Moved here, so that its end tells the other thread of this one's.
            let mut wake = wake;
            receive_calls(&listener, stopped, &sieve, &held, &mut wake)
        });
        let receiving = receiving.map_err(failure)?;
        answer_calls(&listener, &calls, woken, answers).map_err(failure)?;
        receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failure)
    })
}

/// Receives calls until the program has ended or `stopped`, and passes on those that may concern the store. Waits for no lock of the store.
fn receive_calls(
    listener: &CallListener,
    stopped: &UnixStream,
    sieve: &CallSieve,
    held: &Sender<(seccomp_notif, PathCall)>,
    wake: &mut UnixStream,
) -> io::Result<()> {
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let [asked, stopped] = ready.map(|fd| fd.revents());
        if asked.contains(PollFlags::IN) {
            let Some(call) = listener.receive()? else { continue };
            match calls::decode(&call.data).filter(|decoded| sieve.holds(Caller::new(call.pid), decoded)) {
                Some(decoded) => {
                    // It fails only if the other thread has ended, and then the write below fails, too.
                    let _ = held.send((call, decoded));
                    wake.write_all(b"c")?;
                }
                // If nobody waits any more, the caller was killed.
                None => drop(listener.answer(&call, CallReply::Continue)),
            }
        } else if !stopped.is_empty() || asked.contains(PollFlags::HUP) {
            // The program has ended, or nothing is left that the filter concerns.
            return Ok(());
        }
    }
}

/// Answers calls, and places what was closed, until no more calls come. There is a byte in `woken` for each call.
fn answer_calls(
    listener: &CallListener,
    calls: &Receiver<(seccomp_notif, PathCall)>,
    mut woken: UnixStream,
    answers: &mut CallAnswers,
) -> io::Result<()> {
    loop {
        let mut ready = [PollFd::new(&woken, PollFlags::IN), PollFd::new(answers.spools.watcher(), PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let [called, closed] = ready.map(|fd| fd.revents());
        if !called.is_empty() {
            let mut byte = [0];
            if woken.read(&mut byte)? == 0 {
                return Ok(());
            }
            let Ok((call, decoded)) = calls.recv() else { return Ok(()) };
            let reply = answers.answer(Caller::new(call.pid), &decoded, || listener.is_waiting(&call));
            // If nobody waits any more, the caller was killed.
            let _ = listener.answer(&call, reply);
        } else if !closed.is_empty() {
            answers.spools.place_closed(&answers.files);
        }
    }
}

/// Sends a descriptor. Makes system calls only, so it may be used in a forked process.
fn send(socket: &UnixStream, fd: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the descriptor. None if the program could not be started.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(rights.and_then(|mut fds| fds.next()))
}
