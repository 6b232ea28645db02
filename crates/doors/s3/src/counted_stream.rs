//! [`CountedStream`]: a connection whose bytes are counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use terrace_kit::Traffic;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection whose bytes are counted, as they are on the wire.
pub struct CountedStream {
    stream: TcpStream,
    traffic: Traffic,
}

impl CountedStream {
    /// Counts the bytes of a connection.
    pub fn new(stream: TcpStream, traffic: Traffic) -> CountedStream {
        CountedStream { stream, traffic }
    }

    fn count_sent(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        if let Ok(length) = written {
            self.traffic.sent.inc_by(length as u64);
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, out));
        self.traffic.received.inc_by((out.filled().len() - before) as u64);
        Poll::Ready(read)
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.count_sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces));
        self.count_sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
