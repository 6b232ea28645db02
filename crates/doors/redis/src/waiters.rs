//! [`Waiters`]: commands that wait for a value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix_futex_sync::Mutex;

use crate::channels::ClientPlace;
use crate::commands::Verb;
use crate::executor::{Action, Answered, Executor, RedisTask};
use crate::mailbox::{Mailbox, NamedKey};
use crate::request::Words;
use crate::resp::{Protocol, Resp};
use crate::server_facts::ServerFacts;

/// The commands of all workers' clients that wait, in the order in which they began.
pub struct Waiters {
    // Held while commands are tried, so that each client gets its value in its turn. The locks of the executor and of mailboxes are
    // taken under it, and none of them is held when it is taken.
    waiting: Mutex<Queued>,
    facts: Arc<ServerFacts>,
    mailboxes: Vec<Arc<Mailbox>>,
}

#[derive(Default)]
struct Queued {
    all: BTreeMap<u64, Waiter>,
    next: u64,
}

/// A command that waits.
pub struct Waiter {
    /// The client.
    pub place: ClientPlace,
    /// The number of its database.
    pub db: usize,
    /// The version of its protocol.
    pub protocol: Protocol,
    /// The command.
    pub verb: &'static Verb,
    /// Its words.
    pub words: Words,
}

impl Waiters {
    /// Nobody waits.
    pub fn new(facts: Arc<ServerFacts>, mailboxes: Vec<Arc<Mailbox>>) -> Waiters {
        Waiters { waiting: Mutex::default(), facts, mailboxes }
    }

    /// Adds a command behind all others, and returns its number.
    pub fn add(&self, waiter: Waiter) -> u64 {
        let mut queued = self.waiting.lock();
        let number = queued.next;
        queued.next += 1;
        queued.all.insert(number, waiter);
        self.facts.waiting.store(queued.all.len(), Ordering::Relaxed);
        number
    }

    /// Removes a command. Returns none if it was answered already.
    pub fn remove(&self, number: u64) -> Option<Waiter> {
        let mut queued = self.waiting.lock();
        let removed = queued.all.remove(&number);
        self.facts.waiting.store(queued.all.len(), Ordering::Relaxed);
        removed
    }

    /// Ends the waiting of a client, with this reply or with that of a command that has waited for too long. Returns whether it waited.
    pub fn unblock(&self, client: ClientPlace, reply: Option<Resp>) -> bool {
        let mut queued = self.waiting.lock();
        let found = queued.all.iter().find(|(_, waiter)| waiter.place == client).map(|(number, _)| *number);
        let Some((number, waiter)) = found.and_then(|number| queued.all.remove_entry(&number)) else { return false };
        self.facts.waiting.store(queued.all.len(), Ordering::Relaxed);
        let reply = reply.unwrap_or_else(|| waiter.verb.nothing());
        self.mailboxes[client.worker].answer(client.client, number, reply);
        true
    }

    /// Tries the commands that name a changed key, in their order. The values that they take or give away may end others' waiting.
    pub fn try_changed(&self, executor: &Executor, changed: Vec<NamedKey>) {
        // A command that is added just now is found by the next look at all.
        if changed.is_empty() || self.facts.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut queued = self.waiting.lock();
        let mut changed = changed;
        while !changed.is_empty() {
            let names =
                |waiter: &Waiter| changed.iter().any(|(db, name)| *db == waiter.db && waiter.words.contains(name));
            let numbers: Vec<u64> =
                queued.all.iter().filter(|(_, waiter)| names(waiter)).map(|(number, _)| *number).collect();
            changed = self.try_these(executor, &mut queued, numbers);
        }
    }

    /// Tries all commands: another process may have changed their keys.
    pub fn try_all(&self, executor: &Executor) {
        if self.facts.waiting.load(Ordering::Relaxed) > 0 {
            let mut queued = self.waiting.lock();
            let numbers = queued.all.keys().copied().collect();
            self.try_these(executor, &mut queued, numbers);
        }
    }

    /// Tries commands, and returns the keys that they have changed.
    fn try_these(&self, executor: &Executor, queued: &mut Queued, numbers: Vec<u64>) -> Vec<NamedKey> {
        let mut changed = Vec::new();
        for number in numbers {
            let Some(Waiter { place, db, protocol, verb, words }) = queued.all.remove(&number) else { continue };
            let task = RedisTask { client: place.client, db, protocol, action: Action::TryAgain(verb, words) };
            let answer = executor.carry_out(std::slice::from_ref(&task), &mut changed).into_iter().next();
            match (answer, task.action) {
                (Some(Answered::Reply(reply)), _) => {
                    self.mailboxes[place.worker].answer(place.client, number, reply);
                }
                (_, Action::TryAgain(verb, words)) => {
                    queued.all.insert(number, Waiter { place, db, protocol, verb, words });
                }
                _ => {}
            }
        }
        self.facts.waiting.store(queued.all.len(), Ordering::Relaxed);
        changed
    }
}
