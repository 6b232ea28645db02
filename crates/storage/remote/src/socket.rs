//! A socket for a thread that waits: asynchronous for hyper and rustls, and a loop that polls them and then waits for the socket.
//!
//! A thread polls its own connection, because callers of a target wait anyway. The threads of a runtime would cost two hand-overs
//! for each request, and would not survive a fork.

use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connected socket, and what its owner waits for. One thread at a time uses it, so the flags are relaxed.
pub struct Socket {
    stream: TcpStream,
    wants_read: AtomicBool,
    wants_write: AtomicBool,
}

impl Socket {
    /// Makes the socket ready for [`Socket::drive`].
    pub fn new(stream: TcpStream) -> io::Result<Arc<Socket>> {
        stream.set_nonblocking(true)?;
        // A request and its answer are small writes, which must not wait for each other.
        stream.set_nodelay(true)?;
        Ok(Arc::new(Socket { stream, wants_read: AtomicBool::new(false), wants_write: AtomicBool::new(false) }))
    }

    /// The system's socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Polls a future that uses this socket until it is done. `deadline` is asked again before each wait.
    ///
    /// # Errors
    /// `TimedOut` after the deadline.
    pub fn drive<T>(&self, deadline: impl Fn() -> Instant, future: impl Future<Output = T>) -> io::Result<T> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            woken.0.store(false, Ordering::Relaxed);
            self.wants_read.store(false, Ordering::Relaxed);
            self.wants_write.store(false, Ordering::Relaxed);
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return Ok(done);
            }
            // One part of the future may have made another one ready, without any I/O.
            if !woken.0.load(Ordering::Relaxed) {
                self.wait(deadline())?;
            }
        }
    }

    fn wait(&self, deadline: Instant) -> io::Result<()> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.wants_read.load(Ordering::Relaxed));
        wanted.set(PollFlags::OUT, self.wants_write.load(Ordering::Relaxed));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match poll(&mut [PollFd::new(&self.stream, wanted)], Some(&timespec(left))) {
                Ok(0) | Err(Errno::INTR) => {}
                ready => return ready.map(drop).map_err(io::Error::from),
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One side's access to the socket.
pub struct Stream(pub Arc<Socket>);

impl Stream {
    fn send(&self, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            // Without the flag, a connection that the other side has closed would end a C program by SIGPIPE.
            match sendmsg(&self.0.stream, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.0.wants_write.store(true, Ordering::Relaxed);
                    return Poll::Pending;
                }
                sent => return Poll::Ready(sent.map_err(io::Error::from)),
            }
        }
    }
}

impl AsyncRead for Stream {
    #[allow(unsafe_code)]
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            // SAFETY: nothing makes bytes uninitialized that were not: `read` writes to them, or leaves them as they are.
            let unfilled = unsafe { buffer.unfilled_mut() };
            match rustix::io::read(&self.0.stream, unfilled) {
                Ok((read, _)) => {
                    let length = read.len();
                    // SAFETY: the system has written this many bytes at the start of the unfilled part.
                    unsafe { buffer.assume_init(length) };
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.0.wants_read.store(true, Ordering::Relaxed);
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.send(&[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.send(parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.stream.shutdown(std::net::Shutdown::Write) {
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            shut => Poll::Ready(shut),
        }
    }
}
