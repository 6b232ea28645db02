//! [`TlsStream`]: a TLS connection over a socket that does not wait.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::ServerConnection;
use terrace_kit::Certificate;

/// A TLS connection.
pub struct TlsStream {
    /// The socket.
    pub socket: TcpStream,
    session: ServerConnection,
}

impl TlsStream {
    /// A connection that agrees on TLS when it is first read.
    pub fn new(socket: TcpStream, certificate: &Certificate) -> io::Result<TlsStream> {
        let session = ServerConnection::new(certificate.server_config()).map_err(io::Error::other)?;
        Ok(TlsStream { socket, session })
    }

    /// Whether encrypted bytes wait until the socket takes them.
    pub fn holds_bytes(&self) -> bool {
        self.session.wants_write()
    }

    /// Tells the client that nothing more comes, as far as the socket takes that at once.
    pub fn say_end(&mut self) {
        self.session.send_close_notify();
        // The client may have gone.
        let _ = self.send_encrypted();
    }

    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Sends encrypted bytes as far as the socket takes them.
    fn try_send(&mut self) -> io::Result<()> {
        match self.send_encrypted() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }
}

impl Read for TlsStream {
    /// Reads decrypted bytes; fails with `WouldBlock` only if the socket has none.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end without a farewell is an end, too: what is cut off is no whole request.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.session.read_tls(&mut self.socket)?;
            let processed = self.session.process_new_packets();
            // The handshake's next messages, or the reason for which it fails.
            self.try_send()?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Earlier bytes first, so that no more than the library's buffer wait here.
        self.send_encrypted()?;
        let length = self.session.writer().write(bytes)?;
        self.try_send()?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_encrypted()
    }
}
