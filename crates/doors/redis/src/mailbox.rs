//! [`Mailbox`]: things that other threads have for a worker.

use mio::Waker;
use rustix_futex_sync::Mutex;
use terrace_kit::OpenConnection;

use crate::resp::Resp;
use crate::stream::RedisStream;

/// The name of a key, with the number of its database.
pub type NamedKey = (usize, Vec<u8>);

/// Messages and connections for a worker.
pub struct Mailbox {
    waker: Waker,
    // Held for a push or a take only; no other lock is taken under it.
    mail: Mutex<Mail>,
}

/// The contents of a mailbox.
#[derive(Default)]
pub struct Mail {
    /// New connections.
    pub arrivals: Vec<(RedisStream, OpenConnection)>,
    /// Messages for connections, by their numbers.
    pub messages: Vec<(usize, Resp)>,
    /// Replies to connections that waited, by the numbers of connection and command.
    pub answers: Vec<(usize, u64, Resp)>,
    /// Connections that are to be closed.
    pub closed: Vec<u64>,
}

impl Mailbox {
    /// An empty mailbox; its worker is woken by `waker`.
    pub fn new(waker: Waker) -> Mailbox {
        Mailbox { waker, mail: Mutex::default() }
    }

    /// Hands over a connection.
    pub fn hand_over(&self, stream: RedisStream, open: OpenConnection) {
        self.mail.lock().arrivals.push((stream, open));
        self.wake();
    }

    /// Delivers a message.
    pub fn deliver(&self, client: usize, message: Resp) {
        self.mail.lock().messages.push((client, message));
        self.wake();
    }

    /// Asks to close the connection with this number, wherever it is.
    pub fn close(&self, id: u64) {
        self.mail.lock().closed.push(id);
        self.wake();
    }

    /// Answers a command that waited.
    pub fn answer(&self, client: usize, number: u64, reply: Resp) {
        self.mail.lock().answers.push((client, number, reply));
        self.wake();
    }

    /// Takes everything out.
    pub fn take(&self) -> Mail {
        std::mem::take(&mut *self.mail.lock())
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        // It fails only if the worker has gone, and then nobody is there for the mail.
        let _ = self.waker.wake();
    }
}
