//! The supervisor: a thread that answers a program's calls.

// A forked process installs the filter before it becomes the program.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

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
use crate::calls;
use crate::filter::CallFilter;
use crate::listener::{CallListener, CallReply};
use crate::listing::ShownDirectories;
use crate::memory::Caller;
use crate::paths::StorePrefix;
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
            prefix: StorePrefix::new(prefix.as_os_str().as_bytes()),
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

fn serve(socket: &UnixStream, stopped: &UnixStream, answers: &mut CallAnswers) -> Result<(), FileError> {
    let Some(listener) = receive(socket).map_err(failure)? else { return Ok(()) };
    let listener = CallListener::new(listener);
    loop {
        let mut ready = [
            PollFd::new(&listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(answers.spools.watcher(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            polled => polled.map_err(|error| failure(error.into()))?,
        };
        let [asked, stopped, closed] = ready.map(|fd| fd.revents());
        if asked.contains(PollFlags::IN) {
            answer_next(&listener, answers).map_err(failure)?;
        } else if !stopped.is_empty() || asked.contains(PollFlags::HUP) {
            // The program has ended, or nothing is left that the filter concerns.
            return Ok(());
        } else if !closed.is_empty() {
            answers.spools.place_closed(&answers.files);
        }
    }
}

fn answer_next(listener: &CallListener, answers: &mut CallAnswers) -> io::Result<()> {
    let Some(call) = listener.receive()? else { return Ok(()) };
    let reply = match calls::decode(&call.data) {
        Some(decoded) => answers.answer(Caller::new(call.pid), &decoded, || listener.is_waiting(&call)),
        None => CallReply::Continue,
    };
    // If nobody waits any more, the caller was killed.
    let _ = listener.answer(&call, reply);
    Ok(())
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
