//! [`RedisSession`]: the state of a connection, and the commands that change it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::channels::{ClientPlace, Interest};
use crate::client_memory::bytes_of;
use crate::commands::{Verb, find};
use crate::executor::WatchedKey;
use crate::limits::Dialect;
use crate::memcached::{ItemDeed, MemcachedCommand, StoreWay};
use crate::number::parse_integer;
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::request::Words;
use crate::requests::Request;
use crate::resp::{Protocol, Resp};
use crate::server_facts::{REDIS_VERSION, ServerFacts};

const WRONG_PASSWORD: Problem = said("WRONGPASS invalid username-password pair or user is disabled.");
/// The only user. There are no others, because the store has no rights.
const ONLY_USER: &[u8] = b"default";

/// The state of a connection.
pub struct RedisSession {
    /// Its number, which no other connection of the server has.
    pub id: u64,
    /// The number of its database.
    pub db: usize,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// Whether it has given the password, or needs none.
    pub is_trusted: bool,
    /// Whether it is to be closed once all replies are sent.
    pub is_ending: bool,
    place: ClientPlace,
    name: Vec<u8>,
    queue: Option<Queue>,
    watched: Vec<WatchedKey>,
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    /// The memory that channels and patterns take.
    interest_bytes: usize,
    facts: Arc<ServerFacts>,
}

/// The commands of a transaction.
#[derive(Default)]
struct Queue {
    commands: Vec<(&'static Verb, Words)>,
    /// Whether one of them cannot be carried out.
    is_broken: bool,
    /// The memory that they take.
    bytes: usize,
}

/// The step that follows a request.
pub enum Step {
    /// This is the reply.
    Reply(Resp),
    /// The command is carried out.
    Run(&'static Verb, Words),
    /// All earlier commands are carried out, and then these keys are looked at.
    Watch(Words),
    /// The commands are carried out together, after all earlier ones if there are watched keys.
    Transaction(Vec<(&'static Verb, Words)>, Vec<WatchedKey>),
    /// Another connection is closed.
    Close(u64),
    /// Another connection waits no longer: its command gets this reply, or that of one that has waited for too long.
    Unblock(u64, Option<Resp>),
    /// The command of memcached is carried out.
    Item(MemcachedCommand),
}

impl RedisSession {
    /// The state of a new connection.
    pub fn new(id: u64, place: ClientPlace, facts: Arc<ServerFacts>) -> RedisSession {
        RedisSession {
            id,
            db: 0,
            protocol: match facts.dialect {
                Dialect::Redis => Protocol::default(),
                Dialect::Memcached { .. } => Protocol::Memcached,
            },
            is_trusted: facts.password.is_none(),
            is_ending: false,
            place,
            name: Vec::new(),
            queue: None,
            watched: Vec::new(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            interest_bytes: 0,
            facts,
        }
    }

    /// Takes a request.
    pub fn take(&mut self, request: Request) -> Step {
        match request {
            Request::Words(words) => self.take_words(words),
            Request::Item(command) => self.take_item_command(command),
        }
    }

    fn take_item_command(&mut self, command: MemcachedCommand) -> Step {
        if command.deed == ItemDeed::Quit {
            self.is_ending = true;
            return Step::Reply(Resp::NO_REPLY);
        }
        if self.is_trusted { Step::Item(command) } else { Step::Reply(self.let_in(&command)) }
    }

    /// A client of memcached gives the password by `set`, of any key: the value is the user, a space and the password.
    fn let_in(&mut self, command: &MemcachedCommand) -> Resp {
        let ItemDeed::Store { way: StoreWay::Set, bytes, .. } = &command.deed else {
            return Resp::Status("CLIENT_ERROR unauthenticated");
        };
        let guess = bytes.strip_prefix(ONLY_USER).and_then(|rest| rest.strip_prefix(b" "));
        self.is_trusted = guess.is_some_and(|guess| self.is_password(guess));
        match self.is_trusted {
            true => Resp::Status("STORED"),
            false => Resp::Status("CLIENT_ERROR authentication failure"),
        }
    }

    fn take_words(&mut self, words: Words) -> Step {
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        if !self.is_trusted && !matches!(name.as_slice(), b"auth" | b"hello" | b"quit" | b"reset") {
            return refuse("NOAUTH Authentication required.");
        }
        if self.listens() && self.protocol == Protocol::Resp2 {
            match name.as_slice() {
                b"subscribe" | b"unsubscribe" | b"psubscribe" | b"punsubscribe" | b"quit" | b"reset" => {}
                b"ping" if words.len() <= 2 => {
                    let text = words.get(1).cloned().unwrap_or_default();
                    return Step::Reply(Resp::bulks([b"pong".to_vec(), text]));
                }
                _ => {
                    let name = String::from_utf8_lossy(&name);
                    return Step::Reply(Resp::Error(format!(
                        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
                    )));
                }
            }
        }
        match self.change(&name, &words) {
            Some(Ok(step)) => step,
            Some(Err(problem)) => self.broken(Resp::Error(problem.text())),
            None => self.run(words),
        }
    }

    /// Carries out the commands that change the session. Returns none if it is another command.
    fn change(&mut self, name: &[u8], words: &[Vec<u8>]) -> Option<Result<Step, Problem>> {
        // In a transaction, these are carried out with the others.
        if self.queue.is_some() && matches!(name, b"select" | b"unwatch") {
            return None;
        }
        let arity: fn(usize) -> bool = match name {
            b"multi" | b"exec" | b"discard" | b"unwatch" | b"reset" => |count| count == 1,
            b"select" => |count| count == 2,
            b"auth" => |count| count == 2 || count == 3,
            b"watch" | b"subscribe" | b"psubscribe" | b"client" => |count| count >= 2,
            b"quit" | b"hello" | b"unsubscribe" | b"punsubscribe" => |_| true,
            _ => return None,
        };
        if !arity(words.len()) {
            return Some(Err(wrong_number(name)));
        }
        let arguments = &words[1..];
        Some(match name {
            b"exec" => self.exec(),
            b"discard" => self.discard(),
            b"multi" if self.queue.is_some() => Ok(refuse("ERR MULTI calls can not be nested")),
            b"watch" if self.queue.is_some() => Ok(refuse("ERR WATCH inside MULTI is not allowed")),
            b"multi" => {
                self.queue = Some(Queue::default());
                Ok(Step::Reply(Resp::OK_REPLY))
            }
            b"quit" => {
                self.is_ending = true;
                Ok(Step::Reply(Resp::OK_REPLY))
            }
            b"reset" => {
                self.reset();
                Ok(Step::Reply(Resp::Status("RESET")))
            }
            _ if self.queue.is_some() => {
                let name = String::from_utf8_lossy(name).to_ascii_uppercase();
                Err(format!("ERR {name} is not possible in a transaction here").into())
            }
            b"watch" => Ok(Step::Watch(arguments.to_vec())),
            b"unwatch" => {
                self.watched.clear();
                Ok(Step::Reply(Resp::OK_REPLY))
            }
            b"select" => self.select(&arguments[0]).map(Step::Reply),
            b"auth" => self.auth(arguments).map(Step::Reply),
            b"hello" => self.hello(arguments).map(Step::Reply),
            b"client" => self.client(arguments),
            b"subscribe" => Ok(Step::Reply(self.join(Interest::Channel, arguments))),
            b"psubscribe" => Ok(Step::Reply(self.join(Interest::Pattern, arguments))),
            b"unsubscribe" => Ok(Step::Reply(self.leave(Interest::Channel, arguments))),
            _ => Ok(Step::Reply(self.leave(Interest::Pattern, arguments))),
        })
    }

    /// Checks another command, and queues it in a transaction.
    fn run(&mut self, words: Words) -> Step {
        let name = words.first().map(Vec::as_slice).unwrap_or_default();
        let Some(verb) = find(name) else {
            let unknown = unknown_command(&words);
            return self.broken(Resp::Error(unknown));
        };
        if !verb.takes(words.len()) {
            let wrong = wrong_number(&name.to_ascii_lowercase());
            return self.broken(Resp::Error(wrong.text()));
        }
        match &mut self.queue {
            Some(_) if matches!(verb.name, "save" | "shutdown") => {
                self.broken(Resp::Error("ERR Command not allowed inside a transaction".into()))
            }
            Some(queue) => {
                queue.bytes += bytes_of(&words);
                queue.commands.push((verb, words));
                Step::Reply(Resp::Status("QUEUED"))
            }
            None => Step::Run(verb, words),
        }
    }

    /// Notes that a transaction cannot be carried out any more.
    fn broken(&mut self, reply: Resp) -> Step {
        if let Some(queue) = &mut self.queue {
            queue.is_broken = true;
        }
        Step::Reply(reply)
    }

    fn exec(&mut self) -> Result<Step, Problem> {
        let queue = self.queue.take().ok_or(said("ERR EXEC without MULTI"))?;
        let watched = std::mem::take(&mut self.watched);
        match queue.is_broken {
            true => Err(said("EXECABORT Transaction discarded because of previous errors.")),
            false => Ok(Step::Transaction(queue.commands, watched)),
        }
    }

    fn discard(&mut self) -> Result<Step, Problem> {
        self.queue.take().ok_or(said("ERR DISCARD without MULTI"))?;
        self.watched.clear();
        Ok(Step::Reply(Resp::OK_REPLY))
    }

    /// Notes the states of keys that were looked at.
    pub fn watch(&mut self, keys: Vec<WatchedKey>) {
        let is_known = |new: &WatchedKey| self.watched.iter().any(|old| (old.db, &old.name) == (new.db, &new.name));
        let new: Vec<WatchedKey> = keys.into_iter().filter(|key| !is_known(key)).collect();
        self.watched.extend(new);
    }

    fn reset(&mut self) {
        let RedisSession { id, place, .. } = *self;
        *self = RedisSession::new(id, place, self.facts.clone());
    }

    fn select(&mut self, word: &[u8]) -> Result<Resp, Problem> {
        let number = parse_integer(word).map_err(|_| said("ERR invalid DB index"))?;
        let number = usize::try_from(number).ok().filter(|number| *number < self.facts.databases());
        self.db = number.ok_or(said("ERR DB index is out of range"))?;
        Ok(Resp::OK_REPLY)
    }

    fn auth(&mut self, words: &[Vec<u8>]) -> Result<Resp, Problem> {
        let (user, password) = match words {
            [password] if self.facts.password.is_some() => (ONLY_USER, password),
            [_] => {
                return Err(said(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            [user, password, ..] => (user.as_slice(), password),
            [] => return Err(SYNTAX_ERROR),
        };
        if user != ONLY_USER || !self.is_password(password) {
            return Err(WRONG_PASSWORD);
        }
        self.is_trusted = true;
        Ok(Resp::OK_REPLY)
    }

    /// Whether a guess is the password, if there is one.
    fn is_password(&self, guess: &[u8]) -> bool {
        self.facts.password.as_ref().is_none_or(|right| right.is(guess))
    }

    fn hello(&mut self, words: &[Vec<u8>]) -> Result<Resp, Problem> {
        let protocol = match words.first().map(Vec::as_slice) {
            None => self.protocol,
            Some(b"2") => Protocol::Resp2,
            Some(b"3") => Protocol::Resp3,
            Some(other) if parse_integer(other).is_ok() => return Err(said("NOPROTO unsupported protocol version")),
            Some(_) => return Err(said("ERR Protocol version is not an integer or out of range")),
        };
        let mut rest = words.get(1..).unwrap_or_default();
        let mut name = None;
        while !rest.is_empty() {
            rest = match rest {
                [word, user, password, rest @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                    self.auth(&[user.clone(), password.clone()])?;
                    rest
                }
                [word, new, rest @ ..] if word.eq_ignore_ascii_case(b"setname") => {
                    check_name(new)?;
                    name = Some(new.clone());
                    rest
                }
                _ => {
                    let word = String::from_utf8_lossy(&rest[0]).into_owned();
                    return Err(format!("ERR Syntax error in HELLO option '{word}'").into());
                }
            };
        }
        if !self.is_trusted {
            return Err(said(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be \
                 used to authenticate the client and select the RESP protocol version at the same time",
            ));
        }
        self.protocol = protocol;
        self.name = name.unwrap_or(std::mem::take(&mut self.name));
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        let text = |name: &str, value: &str| (Resp::text(name), Resp::text(value));
        Ok(Resp::Map(vec![
            text("server", "redis"),
            text("version", REDIS_VERSION),
            (Resp::text("proto"), Resp::Number(number)),
            (Resp::text("id"), Resp::Number(self.id as i64)),
            text("mode", "standalone"),
            text("role", "master"),
            (Resp::text("modules"), Resp::Array(Vec::new())),
        ]))
    }

    fn client(&mut self, words: &[Vec<u8>]) -> Result<Step, Problem> {
        let subcommand = words[0].to_ascii_lowercase();
        let reply = match (subcommand.as_slice(), &words[1..]) {
            (b"id", []) => Resp::Number(self.id as i64),
            (b"getname", []) => match self.name.is_empty() {
                true => Resp::Nil,
                false => Resp::Bulk(self.name.clone()),
            },
            (b"setname", [name]) => {
                check_name(name)?;
                self.name = name.clone();
                Resp::OK_REPLY
            }
            (b"setinfo", [_, _]) => Resp::OK_REPLY,
            (b"info", []) => Resp::Text(self.describe()),
            (b"list", _) => Resp::Text(self.describe() + "\n"),
            (b"no-evict", [on]) if on.eq_ignore_ascii_case(b"on") || on.eq_ignore_ascii_case(b"off") => Resp::OK_REPLY,
            (b"kill", [kind, id]) if kind.eq_ignore_ascii_case(b"id") => {
                let id = parse_integer(id)?;
                return Ok(Step::Close(u64::try_from(id).unwrap_or_default()));
            }
            (b"unblock", [id, rest @ ..]) if rest.len() < 2 => {
                let id = u64::try_from(parse_integer(id)?).unwrap_or_default();
                let way = rest.first().map(|way| way.to_ascii_lowercase());
                return Ok(match way.as_deref() {
                    None | Some(b"timeout") => Step::Unblock(id, None),
                    Some(b"error") => {
                        let error = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
                        Step::Unblock(id, Some(Resp::Error(error.to_owned())))
                    }
                    Some(_) => refuse("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
                });
            }
            _ => {
                let name = String::from_utf8_lossy(&subcommand).into_owned();
                return Err(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT ID, INFO, GETNAME, SETNAME, KILL ID or UNBLOCK."
                )
                .into());
            }
        };
        Ok(Step::Reply(reply))
    }

    fn describe(&self) -> String {
        format!(
            "id={} name={} db={} sub={} psub={} multi={} resp={}",
            self.id,
            String::from_utf8_lossy(&self.name),
            self.db,
            self.channels.len(),
            self.patterns.len(),
            self.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64),
            if self.protocol == Protocol::Resp3 { 3 } else { 2 },
        )
    }

    /// The memory that its transaction, its watched keys and its channels take.
    pub fn held_bytes(&self) -> usize {
        let watched: usize = self.watched.iter().map(|key| key.name.capacity() + size_of::<WatchedKey>()).sum();
        let queue = self.queue.as_ref().map_or(0, |queue| queue.bytes);
        queue + watched + self.interest_bytes + self.name.capacity()
    }

    /// Whether it waits for messages.
    pub fn listens(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }

    fn names(&mut self, interest: Interest) -> &mut BTreeSet<Vec<u8>> {
        match interest {
            Interest::Channel => &mut self.channels,
            Interest::Pattern => &mut self.patterns,
        }
    }

    fn join(&mut self, interest: Interest, names: &[Vec<u8>]) -> Resp {
        let mut replies = Vec::new();
        for name in names {
            if self.names(interest).insert(name.clone()) {
                self.interest_bytes += interest_bytes(name);
            }
            self.facts.channels.join(interest, name, self.place);
            let verb = if interest == Interest::Channel { "subscribe" } else { "psubscribe" };
            replies.push(self.tell_interest(verb, Resp::Bulk(name.clone())));
        }
        Resp::Several(replies)
    }

    fn leave(&mut self, interest: Interest, names: &[Vec<u8>]) -> Resp {
        let verb = if interest == Interest::Channel { "unsubscribe" } else { "punsubscribe" };
        let names = if names.is_empty() { self.names(interest).iter().cloned().collect() } else { names.to_vec() };
        if names.is_empty() {
            return self.tell_interest(verb, Resp::Nil);
        }
        let mut replies = Vec::new();
        for name in names {
            if self.names(interest).remove(&name) {
                self.interest_bytes -= interest_bytes(&name);
            }
            self.facts.channels.leave(interest, &name, self.place);
            replies.push(self.tell_interest(verb, Resp::Bulk(name)));
        }
        Resp::Several(replies)
    }

    fn tell_interest(&self, verb: &str, name: Resp) -> Resp {
        Resp::Push(vec![Resp::text(verb), name, Resp::count(self.channels.len() + self.patterns.len())])
    }
}

impl Drop for RedisSession {
    fn drop(&mut self) {
        for (interest, names) in [(Interest::Channel, &self.channels), (Interest::Pattern, &self.patterns)] {
            names.iter().for_each(|name| self.facts.channels.leave(interest, name, self.place));
        }
    }
}

/// The memory that the name of a channel takes, here and in the table of all channels.
fn interest_bytes(name: &[u8]) -> usize {
    2 * (name.len() + size_of::<Vec<u8>>())
}

fn refuse(text: &'static str) -> Step {
    Step::Reply(Resp::Error(text.to_owned()))
}

fn wrong_number(name: &[u8]) -> Problem {
    format!("ERR wrong number of arguments for '{}' command", String::from_utf8_lossy(name)).into()
}

fn unknown_command(words: &[Vec<u8>]) -> String {
    const MAX_SHOWN_BYTES: usize = 128;
    let show = |word: &Vec<u8>| String::from_utf8_lossy(&word[..word.len().min(MAX_SHOWN_BYTES)]).into_owned();
    let name = words.first().map(show).unwrap_or_default();
    let mut shown = String::new();
    for word in words.iter().skip(1).map(show) {
        if shown.len() > MAX_SHOWN_BYTES {
            break;
        }
        shown += &format!("'{word}' ");
    }
    format!("ERR unknown command '{name}', with args beginning with: {shown}")
}

fn check_name(name: &[u8]) -> Result<(), Problem> {
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(()),
        false => Err(said("ERR Client names cannot contain spaces, newlines or special characters.")),
    }
}
