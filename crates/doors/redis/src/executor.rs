//! [`Executor`]: carries out commands of many clients, whose changes reach the store by one commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix_futex_sync::RwLock;
use terrace::key::KeySpace;
use terrace::{Error, Store};
use terrace_kit::Traffic;

use crate::client_memory::{REPLY_TOO_LONG, bytes_of};
use crate::clock::Moment;
use crate::commands::{Call, Done, Patience, Verb, keys_of};
use crate::mailbox::NamedKey;
use crate::memcached::{self, MemcachedCommand};
use crate::pass::{Pass, WatchedState};
use crate::problem::Problem;
use crate::request::Words;
use crate::resp::{Protocol, Resp};
use crate::scan_positions::ScanPositions;
use crate::server_facts::ServerFacts;

/// How often commands run again if other processes change the same values.
const MAX_ATTEMPTS: usize = 100;
/// A pass ends when its changes or replies have more bytes.
const MAX_PASS_BYTES: usize = 16 << 20;
/// A pass has at most this many commands.
pub const MAX_PASS_TASKS: usize = 1024;

/// Something to do for a client.
pub struct RedisTask {
    /// The number of its connection.
    pub client: usize,
    /// The number of the database.
    pub db: usize,
    /// The version of the protocol.
    pub protocol: Protocol,
    /// The thing to do.
    pub action: Action,
}

/// The kinds of things to do.
pub enum Action {
    /// Nothing is to be done any more.
    Reply(Resp),
    /// A command.
    Run(&'static Verb, Words),
    /// A command that waits for a value.
    TryAgain(&'static Verb, Words),
    /// A command of memcached.
    Item(MemcachedCommand),
    /// Commands that are carried out together, if the watched keys are as they were.
    Transaction(Vec<(&'static Verb, Words)>, Vec<WatchedKey>),
}

impl Action {
    /// Counts its requests.
    pub fn count_requests(&self, traffic: &Traffic) {
        match self {
            // What changes the session, and what cannot be carried out.
            Action::Reply(_) => traffic.count_request("session"),
            Action::Run(verb, _) | Action::TryAgain(verb, _) => traffic.count_request(verb.name),
            Action::Item(command) => traffic.count_request(command.kind()),
            Action::Transaction(commands, _) => {
                traffic.count_request("exec");
                commands.iter().for_each(|(verb, _)| traffic.count_request(verb.name));
            }
        }
    }
}

impl RedisTask {
    /// The memory that its words take.
    pub fn held_bytes(&self) -> usize {
        match &self.action {
            Action::Run(_, words) | Action::TryAgain(_, words) => bytes_of(words),
            Action::Transaction(commands, _) => commands.iter().map(|(_, words)| bytes_of(words)).sum(),
            Action::Item(command) => command.held_bytes(),
            Action::Reply(_) => 0,
        }
    }
}

/// A key that a client watches.
#[derive(Clone, Debug)]
pub struct WatchedKey {
    /// The number of its database.
    pub db: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// Its state when the client began.
    pub state: WatchedState,
}

/// The result of a task.
pub enum Answered {
    /// The reply.
    Reply(Resp),
    /// The reply to a transaction that chose another database, and the number of that.
    Selected(Resp, usize),
    /// There is no value yet, so the client waits.
    Waits,
}

/// Carries out commands.
pub struct Executor {
    store: Store,
    databases: Vec<KeySpace>,
    facts: Arc<ServerFacts>,
    positions: ScanPositions,
    /// Commands run under it shared at first. Those that met a conflict run again under it alone: then no other thread of this
    /// process can make them fail a second time. Taken before all locks of the store.
    attempts: RwLock<()>,
}

/// The results of a pass.
struct Carried {
    answers: Vec<Answered>,
    published: Vec<(Vec<u8>, Vec<u8>)>,
    changed: Vec<NamedKey>,
}

impl Executor {
    /// Carries out commands on these databases.
    pub fn new(store: Store, databases: Vec<KeySpace>, facts: Arc<ServerFacts>) -> Executor {
        Executor { store, databases, facts, positions: ScanPositions::default(), attempts: RwLock::new(()) }
    }

    /// The states of keys now.
    pub fn watch(&self, db: usize, names: &[Vec<u8>]) -> Result<Vec<WatchedKey>, Problem> {
        let mut pass = Pass::new(&self.store, &self.databases, Moment::now());
        let watch = |name: &Vec<u8>| Ok(WatchedKey { db, name: name.clone(), state: pass.watched_state(db, name)? });
        names.iter().map(watch).collect()
    }

    /// Carries out tasks in order, and returns the results of those that were carried out: at least one. Keys that were changed
    /// are added to `changed`.
    pub fn carry_out(&self, tasks: &[RedisTask], changed: &mut Vec<NamedKey>) -> Vec<Answered> {
        self.facts.commands.fetch_add(tasks.len() as u64, Ordering::Relaxed);
        for attempt in 0..MAX_ATTEMPTS {
            let (shared, alone) = match attempt {
                0 => (Some(self.attempts.read()), None),
                _ => (None, Some(self.attempts.write())),
            };
            let carried = self.attempt(tasks);
            drop((shared, alone));
            match carried {
                Ok(carried) => {
                    // Not before the commit: an attempt that is repeated must not send its messages twice.
                    carried
                        .published
                        .iter()
                        .for_each(|(channel, message)| self.facts.channels.publish(channel, message));
                    changed.extend(carried.changed);
                    return carried.answers;
                }
                Err(error) if is_conflict(&error) => ServerFacts::count(&self.facts.repeated),
                // Only the commands that it belongs to shall fail.
                Err(error) if changed_nothing(&error) && tasks.len() > 1 => break,
                Err(error) => return fail(tasks, &Problem::Store(error)),
            }
        }
        match tasks {
            [_] => fail(
                tasks,
                &Problem::from("ERR other processes change the same values all the time; try again".to_owned()),
            ),
            _ => tasks.iter().flat_map(|task| self.carry_out(std::slice::from_ref(task), changed)).collect(),
        }
    }

    fn attempt(&self, tasks: &[RedisTask]) -> Result<Carried, Error> {
        let mut pass = Pass::new(&self.store, &self.databases, Moment::now());
        let (mut answers, mut published, mut reply_bytes) = (Vec::with_capacity(tasks.len()), Vec::new(), 0);
        for task in tasks {
            let answer = match &task.action {
                Action::Reply(reply) => Answered::Reply(reply.clone()),
                Action::Run(verb, words) => self.run(&mut pass, task, verb, words, Patience::Ready, &mut published)?,
                Action::TryAgain(verb, words) => {
                    self.run(&mut pass, task, verb, words, Patience::Waiting, &mut published)?
                }
                Action::Item(command) => self.run_item_command(&mut pass, command)?,
                Action::Transaction(commands, watched) => {
                    self.run_transaction(&mut pass, task, commands, watched, &mut published)?
                }
            };
            if let Answered::Reply(reply) | Answered::Selected(reply, _) = &answer {
                reply_bytes += size_of_reply(reply);
            }
            answers.push(answer);
            if reply_bytes + pass.changed_bytes() > MAX_PASS_BYTES {
                break;
            }
        }
        let changed = pass.changed_names();
        pass.commit()?;
        Ok(Carried { answers, published, changed })
    }

    fn run(
        &self,
        pass: &mut Pass<'_>,
        task: &RedisTask,
        verb: &Verb,
        words: &[Vec<u8>],
        patience: Patience,
        published: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<Answered, Error> {
        pass.depends = !verb.reads_one_key();
        let mut call = self.call(pass, task, task.db, words, patience, published);
        answer(check_names(&call, verb).and_then(|()| (verb.run)(&mut call)))
    }

    fn run_item_command(&self, pass: &mut Pass<'_>, command: &MemcachedCommand) -> Result<Answered, Error> {
        pass.depends = command.depends();
        answer(memcached::carry_out(pass, command, &self.facts))
    }

    fn run_transaction(
        &self,
        pass: &mut Pass<'_>,
        task: &RedisTask,
        commands: &[(&'static Verb, Words)],
        watched: &[WatchedKey],
        published: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<Answered, Error> {
        pass.depends = true;
        for WatchedKey { db, name, state } in watched {
            match pass.watched_state(*db, name) {
                Ok(now) if now == *state => {}
                Ok(_) => return Ok(Answered::Reply(Resp::NilArray)),
                Err(problem) => return Ok(Answered::Reply(Resp::Error(problem.text()))),
            }
        }
        let (mut replies, mut reply_bytes) = (Vec::with_capacity(commands.len()), 0);
        let mut db = task.db;
        for (verb, words) in commands {
            let mut call = self.call(pass, task, db, words, Patience::None, published);
            let done = check_names(&call, verb).and_then(|()| (verb.run)(&mut call));
            if verb.name == "select" && done.is_ok() {
                db = call.database(call.word(1)).unwrap_or(db);
            }
            replies.push(match done {
                // The command is carried out; the next ones may change something.
                Ok(reply) if reply_bytes + size_of_reply(&reply) > self.facts.memory.max_reply_bytes() => {
                    Resp::Error(REPLY_TOO_LONG.to_owned())
                }
                Ok(reply) => {
                    reply_bytes += size_of_reply(&reply);
                    reply
                }
                Err(Problem::Store(error)) if is_conflict(&error) => return Err(error),
                Err(problem) => Resp::Error(problem.text()),
            });
        }
        let reply = Resp::Array(replies);
        Ok(if db == task.db { Answered::Reply(reply) } else { Answered::Selected(reply, db) })
    }

    fn call<'c, 's>(
        &'c self,
        pass: &'c mut Pass<'s>,
        task: &RedisTask,
        db: usize,
        words: &'c [Vec<u8>],
        patience: Patience,
        published: &'c mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Call<'c, 's> {
        let (protocol, server, positions) = (task.protocol, &*self.facts, &self.positions);
        Call { pass, db, words, protocol, patience, server, positions, published }
    }
}

fn answer(done: Done) -> Result<Answered, Error> {
    match done {
        Ok(reply) => Ok(Answered::Reply(reply)),
        Err(Problem::Wait) => Ok(Answered::Waits),
        // A value changed while it was read.
        Err(Problem::Store(error)) if is_conflict(&error) => Err(error),
        Err(problem) => Ok(Answered::Reply(Resp::Error(problem.text()))),
    }
}

/// Refuses a command with a name that no key can have, before it has changed other keys.
fn check_names(call: &Call<'_, '_>, verb: &Verb) -> Result<(), Problem> {
    match verb.writes {
        true => keys_of(verb, call.words).into_iter().try_for_each(|name| call.pass.check_name(call.db, name)),
        false => Ok(()),
    }
}

/// Whether another process was quicker, so that commands run again.
fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. } | Error::NotFound { .. } | Error::Replaced { .. } | Error::Stale)
}

/// Whether a failed commit has certainly changed nothing.
fn changed_nothing(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. } | Error::BadKey { .. } | Error::KeyTooLong { .. } | Error::TooLarge { .. })
}

fn fail(tasks: &[RedisTask], problem: &Problem) -> Vec<Answered> {
    let answer = |task: &RedisTask| match &task.action {
        Action::Reply(reply) => Answered::Reply(reply.clone()),
        _ => Answered::Reply(Resp::Error(problem.text())),
    };
    tasks.iter().map(answer).collect()
}

/// About the bytes of a reply.
pub fn size_of_reply(reply: &Resp) -> usize {
    match reply {
        Resp::Bulk(bytes) | Resp::Plain(bytes) => bytes.len(),
        Resp::Array(all) | Resp::Set(all) | Resp::Push(all) | Resp::Several(all) => all.iter().map(size_of_reply).sum(),
        Resp::Map(pairs) => pairs.iter().map(|(key, value)| size_of_reply(key) + size_of_reply(value)).sum(),
        _ => 16,
    }
}
