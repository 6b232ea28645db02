//! [`RedisWorker`]: a thread that serves some of the connections.
//!
//! In each round it reads what has arrived on all its connections, carries out all complete requests in passes, and then sends the
//! replies. So the more clients send at once, the fewer commits and system calls each request costs.

mod closing;
mod preparing;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use terrace_kit::{ACCEPT_RETRY_DELAY, OpenConnection};

use crate::channels::ClientPlace;
use crate::client_memory::{HeldBytes, bytes_of};
use crate::connection::{MAX_UNSENT_BYTES, RedisConnection, Waiting};
use crate::executor::{Action, Answered, Executor, MAX_PASS_TASKS, RedisTask};
use crate::limits::Dialect;
use crate::mailbox::Mailbox;
use crate::memcached::{ItemDeed, MemcachedCommand};
use crate::requests::Requests;
use crate::resp::{Protocol, Resp};
use crate::server_facts::ServerFacts;
use crate::session::RedisSession;
use crate::stream::{RedisListener, RedisStream};
use crate::waiters::{Waiter, Waiters};

/// The token of the mailbox.
pub const MAIL_TOKEN: Token = Token(0);
/// The token of the listening socket, which one worker has.
const LISTENER_TOKEN: Token = Token(1);
/// The number of the first connection.
const FIRST_CLIENT: usize = 2;
/// The most events that are taken from the system at once.
const EVENT_COUNT: usize = 1024;
/// The size of the buffer through which all connections are read.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// The most requests of one connection in a pass: others shall not wait for a long pipeline.
const MAX_CLIENT_TASKS: usize = 256;
/// How often waiting commands are tried: other processes may have changed their keys.
const WAITING_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How often connections that are idle for too long are looked for, and whether all items are to be removed.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The parts that the workers of a server share.
pub struct Workplace {
    /// Carries out commands.
    pub executor: Executor,
    /// The commands that wait for a value.
    pub waiters: Waiters,
    /// The facts about the server.
    pub facts: Arc<ServerFacts>,
    /// The mailboxes of all workers.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Whether the server ends. Release and acquire: what came before it is seen with it.
    pub is_ending: AtomicBool,
    /// The number of the worker that gets the next connection.
    pub next_worker: AtomicUsize,
}

/// A thread that serves some of the connections.
pub struct RedisWorker {
    number: usize,
    shared: Arc<Workplace>,
    poll: Poll,
    listener: Option<RedisListener>,
    /// Whether an accept failed, for example without free descriptors.
    accepts_again: bool,
    clients: HashMap<usize, RedisConnection>,
    next_client: usize,
    /// Connections that have something to be read or carried out, in the order in which it arrived.
    ready: Vec<usize>,
    /// Connections whose replies are to be sent.
    unsent: HashSet<usize>,
    /// Connections that wait for a value.
    waiting: HashSet<usize>,
    waiting_tried: Instant,
    idle_checked: Instant,
    buffer: Vec<u8>,
}

impl RedisWorker {
    /// A worker with the poll that its mailbox wakes.
    pub fn new(
        number: usize,
        shared: Arc<Workplace>,
        poll: Poll,
        listener: Option<RedisListener>,
    ) -> io::Result<RedisWorker> {
        let mut listener = listener;
        if let Some(listener) = &mut listener {
            listener.register(poll.registry(), LISTENER_TOKEN)?;
        }
        Ok(RedisWorker {
            number,
            shared,
            poll,
            listener,
            accepts_again: false,
            clients: HashMap::new(),
            next_client: FIRST_CLIENT,
            ready: Vec::new(),
            unsent: HashSet::new(),
            waiting: HashSet::new(),
            waiting_tried: Instant::now(),
            idle_checked: Instant::now(),
            buffer: vec![0; READ_BUFFER_BYTES],
        })
    }

    /// Serves until the server ends.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENT_COUNT);
        while !self.shared.is_ending.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, self.patience())
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the connections of a worker cannot be waited for");
                return;
            }
            self.note(&events);
            if self.accepts_again {
                self.accept();
            }
            self.take_mail();
            self.read();
            self.carry_out();
            self.tend_waiting();
            self.flush_if_due();
            self.send();
            self.shed();
            self.close_idle();
        }
        self.end();
    }

    /// How long to wait for events at most.
    fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.accepts_again {
            return Some(ACCEPT_RETRY_DELAY);
        }
        if !self.waiting.is_empty() {
            return Some(WAITING_RETRY_INTERVAL);
        }
        (self.closes_idle() || self.flushes()).then_some(IDLE_CHECK_INTERVAL)
    }

    fn note(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                MAIL_TOKEN => {}
                LISTENER_TOKEN => self.accept(),
                Token(client) => {
                    if let Some(connection) = self.clients.get_mut(&client) {
                        if event.is_readable() || event.is_error() {
                            connection.is_readable = true;
                            connection.is_closing |= event.is_read_closed();
                            self.ready.push(client);
                        }
                        if event.is_writable() && connection.has_unsent() {
                            self.unsent.insert(client);
                        }
                    }
                }
            }
        }
    }

    /// Accepts all connections that are waiting, and hands them to the workers in turn.
    fn accept(&mut self) {
        self.accepts_again = false;
        let Some(listener) = &self.listener else { return };
        let facts = &self.shared.facts;
        loop {
            match listener.accept() {
                Ok(mut stream) => {
                    if facts.traffic.open_connections() >= facts.limits.connections {
                        facts.traffic.refused.inc();
                        // It may have gone already. With TLS, it sees only the end.
                        let _ = io::Write::write(&mut stream, facts.dialect.refusal());
                        continue;
                    }
                    let open = facts.traffic.open();
                    let worker = self.shared.next_worker.fetch_add(1, Ordering::Relaxed) % self.shared.mailboxes.len();
                    self.shared.mailboxes[worker].hand_over(stream, open);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Others may wait behind it, and the socket reports only new ones.
                    self.accepts_again = true;
                    return;
                }
            }
        }
    }

    fn take_mail(&mut self) {
        let mailbox = self.shared.mailboxes[self.number].clone();
        let mail = mailbox.take();
        mail.arrivals.into_iter().for_each(|(stream, open)| self.admit(stream, open));
        for (client, message) in mail.messages {
            if let Some(connection) = self.clients.get_mut(&client) {
                connection.push(&message);
                self.unsent.insert(client);
                if connection.unsent_bytes() > MAX_UNSENT_BYTES {
                    tracing::warn!(
                        id = connection.session.id,
                        "a client does not receive its messages and is disconnected"
                    );
                    self.remove(client);
                }
            }
        }
        for id in mail.closed {
            let found =
                self.clients.iter().find(|(_, connection)| connection.session.id == id).map(|(client, _)| *client);
            found.into_iter().for_each(|client| self.remove(client));
        }
        for (client, number, reply) in mail.answers {
            let Some(connection) = self.clients.get_mut(&client) else { continue };
            connection.waiting.take_if(|waiting| waiting.number == number);
            connection.push(&reply);
            self.go_on(client);
        }
    }

    fn admit(&mut self, mut stream: RedisStream, open: OpenConnection) {
        let client = self.next_client;
        self.next_client += 1;
        if let Err(error) = stream.register(self.poll.registry(), Token(client)) {
            tracing::warn!(%error, "a connection could not be served");
            return;
        }
        let place = ClientPlace { worker: self.number, client };
        let session = RedisSession::new(self.id_of(client), place, self.shared.facts.clone());
        let requests = Requests::new(self.shared.facts.dialect);
        let held = HeldBytes::new(self.shared.facts.memory.clone());
        self.clients.insert(client, RedisConnection::new(stream, open, requests, session, held));
    }

    /// The number of a connection among those of all workers.
    fn id_of(&self, client: usize) -> u64 {
        ((client - FIRST_CLIENT) * self.shared.mailboxes.len() + self.number + 1) as u64
    }

    /// The place of the connection with a number, if there is one.
    fn place_of(&self, id: u64) -> Option<ClientPlace> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        let workers = self.shared.mailboxes.len();
        Some(ClientPlace { worker: index % workers, client: index / workers + FIRST_CLIENT })
    }

    fn read(&mut self) {
        // In the order in which their bytes arrived: a client that sends after it saw another's bytes go expects that they are read first.
        let mut seen = HashSet::with_capacity(self.ready.len());
        self.ready.retain(|client| seen.insert(*client));
        for client in self.ready.clone() {
            let Some(connection) = self.clients.get_mut(&client) else { continue };
            if !connection.may_read() {
                continue;
            }
            match connection.read(&mut self.buffer) {
                Ok(length) => drop(self.shared.facts.traffic.received.inc_by(length as u64)),
                Err(_) => self.remove(client),
            }
        }
    }

    /// Carries out the requests that have arrived, in passes.
    fn carry_out(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        let mut tasks = Vec::new();
        for client in ready.iter().copied() {
            let mut count = 0;
            while count < MAX_CLIENT_TASKS && self.prepare(client, &mut tasks) {
                count += 1;
                if tasks.len() >= MAX_PASS_TASKS {
                    self.finish(&mut tasks);
                }
            }
        }
        self.finish(&mut tasks);
        for client in ready {
            let Some(connection) = self.clients.get_mut(&client) else { continue };
            connection.count_memory();
            if connection.has_nothing_left() {
                connection.session.is_ending = true;
                self.unsent.insert(client);
            } else if connection.can_go_on() {
                self.ready.push(client);
            }
        }
    }

    /// Carries out tasks, and adds the replies.
    fn finish(&mut self, tasks: &mut Vec<RedisTask>) {
        let mut tasks = std::mem::take(tasks);
        let mut changed = Vec::new();
        while !tasks.is_empty() {
            let answers = self.shared.executor.carry_out(&tasks, &mut changed);
            let rest = tasks.split_off(answers.len().min(tasks.len()));
            for (task, answer) in tasks.into_iter().zip(answers) {
                self.answer(task, answer);
            }
            tasks = self.postpone(rest);
        }
        self.shared.waiters.try_changed(&self.shared.executor, changed);
    }

    /// Keeps the tasks of clients that have many unsent replies, or wait, for later.
    fn postpone(&mut self, tasks: Vec<RedisTask>) -> Vec<RedisTask> {
        let mut kept = Vec::new();
        for task in tasks {
            match self.clients.get_mut(&task.client) {
                Some(connection) if !connection.may_go_on() || !connection.postponed.is_empty() => {
                    connection.postponed.push_back(task);
                }
                _ => kept.push(task),
            }
        }
        kept
    }

    fn answer(&mut self, task: RedisTask, answer: Answered) {
        let client = task.client;
        let traffic = &self.shared.facts.traffic;
        task.action.count_requests(traffic);
        if let Answered::Reply(reply) = &answer
            && reply.is_error()
        {
            traffic.errors.inc();
        }
        let Some(connection) = self.clients.get_mut(&client) else { return };
        match (answer, task.action) {
            (Answered::Reply(_), Action::Item(command)) if command.is_silent => {}
            (Answered::Reply(reply), _) => {
                connection.reply(&reply, task.protocol);
                self.unsent.insert(client);
            }
            (Answered::Selected(reply, db), _) => {
                connection.session.db = db;
                connection.reply(&reply, task.protocol);
                self.unsent.insert(client);
            }
            (Answered::Waits, Action::Run(verb, words)) => {
                let until = verb.deadline(&words);
                let place = ClientPlace { worker: self.number, client };
                let bytes = bytes_of(&words);
                let waiter = Waiter { place, db: task.db, protocol: task.protocol, verb, words };
                connection.waiting = Some(Waiting { number: self.shared.waiters.add(waiter), bytes, until });
                self.waiting.insert(client);
            }
            (Answered::Waits, _) => {}
        }
    }

    /// Ends the waiting of clients whose time is over, and tries all that wait from time to time.
    fn tend_waiting(&mut self) {
        let now = Instant::now();
        if self.waiting.is_empty() || now.duration_since(self.waiting_tried) < WAITING_RETRY_INTERVAL {
            return;
        }
        self.waiting_tried = now;
        self.shared.waiters.try_all(&self.shared.executor);
        for client in self.waiting.clone() {
            let Some(connection) = self.clients.get_mut(&client) else { continue };
            // If it was answered just now, the reply is in the mail.
            if let Some(Waiting { number, until: Some(until), .. }) = connection.waiting
                && until <= now
                && let Some(waiter) = self.shared.waiters.remove(number)
            {
                connection.waiting = None;
                connection.push(&waiter.verb.nothing());
                self.go_on(client);
            }
        }
    }

    /// Whether it is the worker that removes all items when a client of memcached has asked for that.
    fn flushes(&self) -> bool {
        self.number == 0 && matches!(self.shared.facts.dialect, Dialect::Memcached { .. })
    }

    fn flush_if_due(&mut self) {
        if !self.flushes() || !self.shared.facts.flush.take_due() {
            return;
        }
        let command = MemcachedCommand { deed: ItemDeed::Flush { delay: 0 }, is_silent: true };
        let task = RedisTask { client: 0, db: 0, protocol: Protocol::Memcached, action: Action::Item(command) };
        let answers = self.shared.executor.carry_out(&[task], &mut Vec::new());
        if let Some(Answered::Reply(Resp::Error(error))) = answers.first() {
            tracing::error!(error, "the items that `flush_all` asked to remove are still there");
        }
    }

    /// Goes on with a client that has waited.
    fn go_on(&mut self, client: usize) {
        self.waiting.remove(&client);
        self.unsent.insert(client);
        self.ready.push(client);
    }

    fn send(&mut self) {
        for client in std::mem::take(&mut self.unsent) {
            let Some(connection) = self.clients.get_mut(&client) else { continue };
            let was_full = connection.unsent_bytes() >= MAX_UNSENT_BYTES;
            let sent = connection.send();
            let is_broken = sent.is_err();
            connection.count_memory();
            self.shared.facts.traffic.sent.inc_by(sent.unwrap_or(0) as u64);
            let is_done = connection.session.is_ending && !connection.has_unsent();
            if was_full && connection.unsent_bytes() < MAX_UNSENT_BYTES {
                self.ready.push(client);
            }
            if is_broken || is_done {
                self.remove(client);
            }
        }
    }
}
