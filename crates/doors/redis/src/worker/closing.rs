//! Closing connections: of idle clients, of those for which too much is held, and at the end.

use std::time::{Duration, Instant};

use mio::Events;

use super::{EVENT_COUNT, IDLE_CHECK_INTERVAL, RedisWorker};
use crate::client_memory::OUT_OF_MEMORY;
use crate::connection::RedisConnection;
use crate::limits::Dialect;
use crate::resp::Resp;
use crate::server_facts::ServerFacts;

/// How long a client may take to give the password: it must not keep others out.
const MAX_STRANGER_TIME: Duration = Duration::from_secs(60);
/// How long clients may take to receive their last replies when the server ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

impl RedisWorker {
    /// Disconnects the clients for which the most is held, while more is held for all than may be.
    pub(super) fn shed(&mut self) {
        let facts = self.shared.facts.clone();
        if !facts.memory.is_exceeded() {
            return;
        }
        let share = facts.memory.share(facts.traffic.open_connections());
        let sizes = self.clients.iter().map(|(client, connection)| (connection.held_bytes(), *client));
        let mut large: Vec<(usize, usize)> = sizes.filter(|(bytes, _)| *bytes > share).collect();
        large.sort_unstable();
        while facts.memory.is_exceeded()
            && let Some((bytes, client)) = large.pop()
        {
            tracing::warn!(bytes, "a client is disconnected: {OUT_OF_MEMORY}");
            ServerFacts::count(&facts.evicted);
            self.send_away(client);
        }
        // Then a client of another worker holds more than its share, and that worker finds it: so this ends.
        if facts.memory.is_exceeded() {
            let others = self.shared.mailboxes.iter().enumerate().filter(|(number, _)| *number != self.number);
            others.for_each(|(_, mailbox)| mailbox.wake());
        }
    }

    /// Tells a client that it is disconnected, unless it has left earlier replies, and disconnects it.
    fn send_away(&mut self, client: usize) {
        if let Some(connection) = self.clients.get_mut(&client)
            && !connection.has_unsent()
        {
            let reply = match self.shared.facts.dialect {
                Dialect::Redis => Resp::Error(format!("OOM {OUT_OF_MEMORY}")),
                Dialect::Memcached { .. } => Resp::Error(OUT_OF_MEMORY.to_owned()),
            };
            connection.push(&reply);
            // It may have gone already, or take nothing: it is disconnected anyway.
            let _ = connection.send();
        }
        self.remove(client);
    }

    /// Whether there are connections that are closed after a time.
    pub(super) fn closes_idle(&self) -> bool {
        self.shared.facts.limits.idle.is_some() || self.shared.facts.password.is_some()
    }

    pub(super) fn close_idle(&mut self) {
        let now = Instant::now();
        if !self.closes_idle() || now.duration_since(self.idle_checked) < IDLE_CHECK_INTERVAL {
            return;
        }
        self.idle_checked = now;
        let limit = self.shared.facts.limits.idle;
        let is_idle = |connection: &RedisConnection| {
            let waits = connection.waiting.is_some() || connection.session.listens();
            let is_silent = !waits && limit.is_some_and(|limit| now.duration_since(connection.active) > limit);
            is_silent || (!connection.session.is_trusted && now.duration_since(connection.begun) > MAX_STRANGER_TIME)
        };
        let idle: Vec<usize> =
            self.clients.iter().filter(|(_, connection)| is_idle(connection)).map(|(client, _)| *client).collect();
        idle.into_iter().for_each(|client| self.remove(client));
    }

    pub(super) fn remove(&mut self, client: usize) {
        if let Some(mut connection) = self.clients.remove(&client) {
            self.waiting.remove(&client);
            if let Some(waiting) = &connection.waiting {
                self.shared.waiters.remove(waiting.number);
            }
            connection.stream.say_end();
            // Its descriptor is closed next, which ends the registration anyway.
            let _ = connection.stream.deregister(self.poll.registry());
        }
    }

    /// Accepts no more connections, and sends the last replies.
    pub(super) fn end(mut self) {
        self.listener = None;
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        let mut events = Events::with_capacity(EVENT_COUNT);
        loop {
            self.clients.retain(|_, connection| connection.send().is_ok() && connection.has_unsent());
            let left = until.saturating_duration_since(Instant::now());
            if self.clients.is_empty() || left.is_zero() || self.poll.poll(&mut events, Some(left)).is_err() {
                return;
            }
        }
    }
}
