//! [`Channels`]: messages between the clients of one server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix_futex_sync::Mutex;

use crate::mailbox::Mailbox;
use crate::pattern::matches;
use crate::resp::Resp;

/// A connection, by the number of its worker and its own number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientPlace {
    /// The worker that serves it.
    pub worker: usize,
    /// Its number there.
    pub client: usize,
}

/// Who listens to which channels.
pub struct Channels {
    mailboxes: Vec<Arc<Mailbox>>,
    // Held for a look or a change, and while a message is put into mailboxes, whose own locks are taken under it.
    listening: Mutex<Listening>,
}

#[derive(Default)]
struct Listening {
    channels: BTreeMap<Vec<u8>, BTreeSet<ClientPlace>>,
    patterns: BTreeMap<Vec<u8>, BTreeSet<ClientPlace>>,
}

/// A way to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// To one channel.
    Channel,
    /// To all channels whose names match a pattern.
    Pattern,
}

impl Listening {
    fn of(&mut self, interest: Interest) -> &mut BTreeMap<Vec<u8>, BTreeSet<ClientPlace>> {
        match interest {
            Interest::Channel => &mut self.channels,
            Interest::Pattern => &mut self.patterns,
        }
    }
}

impl Channels {
    /// Nobody listens.
    pub fn new(mailboxes: Vec<Arc<Mailbox>>) -> Channels {
        Channels { mailboxes, listening: Mutex::default() }
    }

    /// A client begins to listen.
    pub fn join(&self, interest: Interest, name: &[u8], client: ClientPlace) {
        self.listening.lock().of(interest).entry(name.to_vec()).or_default().insert(client);
    }

    /// A client listens no more.
    pub fn leave(&self, interest: Interest, name: &[u8], client: ClientPlace) {
        let mut listening = self.listening.lock();
        let all = listening.of(interest);
        if let Some(clients) = all.get_mut(name) {
            clients.remove(&client);
            if clients.is_empty() {
                all.remove(name);
            }
        }
    }

    /// The channels that somebody listens to by name.
    pub fn names(&self) -> Vec<Vec<u8>> {
        self.listening.lock().channels.keys().cloned().collect()
    }

    /// The number of patterns that somebody listens to.
    pub fn patterns(&self) -> usize {
        self.listening.lock().patterns.len()
    }

    /// The number of clients that listen to a channel by name.
    pub fn listeners(&self, channel: &[u8]) -> usize {
        self.listening.lock().channels.get(channel).map_or(0, BTreeSet::len)
    }

    /// How often a message to a channel is delivered.
    pub fn count(&self, channel: &[u8]) -> usize {
        let listening = self.listening.lock();
        let by_pattern = listening.patterns.iter().filter(|(pattern, _)| matches(pattern, channel));
        let by_pattern: usize = by_pattern.map(|(_, clients)| clients.len()).sum();
        listening.channels.get(channel).map_or(0, BTreeSet::len) + by_pattern
    }

    /// Delivers a message to all that listen.
    pub fn publish(&self, channel: &[u8], message: &[u8]) {
        let listening = self.listening.lock();
        let bulk = |bytes: &[u8]| Resp::Bulk(bytes.to_vec());
        for client in listening.channels.get(channel).into_iter().flatten() {
            let push = vec![Resp::text("message"), bulk(channel), bulk(message)];
            self.mailboxes[client.worker].deliver(client.client, Resp::Push(push));
        }
        for (pattern, clients) in listening.patterns.iter().filter(|(pattern, _)| matches(pattern, channel)) {
            for client in clients {
                let push = vec![Resp::text("pmessage"), bulk(pattern), bulk(channel), bulk(message)];
                self.mailboxes[client.worker].deliver(client.client, Resp::Push(push));
            }
        }
    }
}
