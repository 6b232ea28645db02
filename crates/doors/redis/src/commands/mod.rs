//! The commands that use values: each a function from a [`Call`] to a reply.

mod bits;
mod dumps;
mod expiry;
mod hashes;
mod keys;
mod lcs;
mod lists;
mod scans;
mod score_ranges;
mod server;
mod sets;
mod sort;
mod sorted_sets;
mod strings;

pub use expiry::{ExpiryUnit, resolve_expiry};

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::datum::DatumType;
use crate::number::{parse_count, parse_float, parse_integer};
use crate::pass::Pass;
use crate::problem::{Problem, SYNTAX_ERROR, said};
use crate::resp::{Protocol, Resp};
use crate::scan_positions::ScanPositions;
use crate::server_facts::ServerFacts;

/// The result of a command.
pub type Done = Result<Resp, Problem>;

/// A command.
pub struct Verb {
    /// Its name, in lower case.
    pub name: &'static str,
    /// The number of words; the least number, negated, if there may be more.
    pub arity: i32,
    /// Whether it changes values.
    pub writes: bool,
    /// Which words are keys.
    pub keys: KeyWords,
    /// How it waits for a value, if it does.
    pub waits: Option<WaitRule>,
    /// Carries it out.
    pub run: fn(&mut Call<'_, '_>) -> Done,
}

/// How a command waits.
#[derive(Clone, Copy)]
pub struct WaitRule {
    /// The word with the time, in seconds; negative ones count from the end.
    timeout: i32,
    /// The reply if the time is over.
    nothing: fn() -> Resp,
}

/// The words of a command that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWords {
    /// The first one; 0 if there is none.
    pub first: i32,
    /// The last one; negative ones count from the end.
    pub last: i32,
    /// The distance between two.
    pub step: i32,
}

const NO_KEYS: KeyWords = KeyWords { first: 0, last: 0, step: 0 };
const ONE_KEY: KeyWords = KeyWords { first: 1, last: 1, step: 1 };
const TWO_KEYS: KeyWords = KeyWords { first: 1, last: 2, step: 1 };
const ALL_KEYS: KeyWords = KeyWords { first: 1, last: -1, step: 1 };
const KEYS_BEFORE_TIMEOUT: KeyWords = KeyWords { first: 1, last: -2, step: 1 };
const PAIRS_WITH_KEYS: KeyWords = KeyWords { first: 1, last: -1, step: 2 };
const KEYS_AFTER_OPERATION: KeyWords = KeyWords { first: 2, last: -1, step: 1 };
const KEY_AFTER_SUBCOMMAND: KeyWords = KeyWords { first: 2, last: 2, step: 1 };

type Run = fn(&mut Call<'_, '_>) -> Done;

const fn reading(name: &'static str, arity: i32, keys: KeyWords, run: Run) -> Verb {
    Verb { name, arity, writes: false, keys, waits: None, run }
}

const fn writing(name: &'static str, arity: i32, keys: KeyWords, run: Run) -> Verb {
    Verb { name, arity, writes: true, keys, waits: None, run }
}

const fn waiting(name: &'static str, arity: i32, keys: KeyWords, waits: WaitRule, run: Run) -> Verb {
    Verb { name, arity, writes: true, keys, waits: Some(waits), run }
}

static COMMANDS_BY_NAME: LazyLock<HashMap<&'static [u8], &'static Verb>> = LazyLock::new(|| {
    let all = [
        bits::COMMAND_TABLE,
        dumps::COMMAND_TABLE,
        expiry::COMMAND_TABLE,
        hashes::COMMAND_TABLE,
        keys::COMMAND_TABLE,
        lcs::COMMAND_TABLE,
        lists::COMMAND_TABLE,
        scans::COMMAND_TABLE,
        server::COMMAND_TABLE,
        sets::COMMAND_TABLE,
        sort::COMMAND_TABLE,
        sorted_sets::COMMAND_TABLE,
        strings::COMMAND_TABLE,
    ];
    all.into_iter().flatten().map(|verb| (verb.name.as_bytes(), verb)).collect()
});

/// The command with this name, in whatever case.
pub fn find(name: &[u8]) -> Option<&'static Verb> {
    COMMANDS_BY_NAME.get(name.to_ascii_lowercase().as_slice()).copied()
}

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Verb> {
    COMMANDS_BY_NAME.values().copied()
}

impl Verb {
    /// Whether a request may have this many words.
    pub fn takes(&self, words: usize) -> bool {
        let words = i32::try_from(words).unwrap_or(i32::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// When it gives up, if it begins to wait now; none: never.
    pub fn deadline(&self, words: &[Vec<u8>]) -> Option<Instant> {
        let timeout = self.waits?.timeout;
        let at =
            usize::try_from(if timeout < 0 { i32::try_from(words.len()).ok()? + timeout } else { timeout }).ok()?;
        // The command has checked it.
        let seconds = parse_float(words.get(at)?).ok().filter(|seconds| *seconds > 0.0)?;
        Instant::now().checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }

    /// The reply if the time is over.
    pub fn nothing(&self) -> Resp {
        self.waits.map_or(Resp::Nil, |waits| (waits.nothing)())
    }

    /// Whether it only reads one key. Then no other command's change can come between.
    pub fn reads_one_key(&self) -> bool {
        !self.writes && (self.keys == ONE_KEY || self.keys == NO_KEYS)
    }
}

/// Whether a command may wait for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It may not: it is part of a transaction.
    None,
    /// It may begin to wait.
    Ready,
    /// It has waited before.
    Waiting,
}

/// A command of a client that is carried out.
pub struct Call<'c, 's> {
    /// The values and their changes.
    pub pass: &'c mut Pass<'s>,
    /// The number of the database.
    pub db: usize,
    /// The command and its arguments.
    pub words: &'c [Vec<u8>],
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Whether the client may wait for a value.
    pub patience: Patience,
    /// The state of the server.
    pub server: &'c ServerFacts,
    /// Where scans go on.
    pub positions: &'c ScanPositions,
    /// Messages that are sent once the command's changes are committed.
    pub published: &'c mut Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'c> Call<'c, '_> {
    /// A word. An empty one stands for a word that is not there: the number of words was checked.
    pub fn word(&self, at: usize) -> &'c [u8] {
        self.words.get(at).map_or(&[], Vec::as_slice)
    }

    /// The words from this one on.
    pub fn words_from(&self, at: usize) -> &'c [Vec<u8>] {
        self.words.get(at..).unwrap_or_default()
    }

    /// The first argument.
    pub fn key(&self) -> &'c [u8] {
        self.word(1)
    }

    /// A word that is a whole number.
    pub fn integer(&self, at: usize) -> Result<i64, Problem> {
        parse_integer(self.word(at))
    }

    /// A word that is a number.
    pub fn float(&self, at: usize) -> Result<f64, Problem> {
        parse_float(self.word(at))
    }

    /// A word that is a count.
    pub fn count(&self, at: usize) -> Result<usize, Problem> {
        parse_count(self.word(at))
    }

    /// Whether a word is this one, in whatever case.
    pub fn says(&self, at: usize, word: &str) -> bool {
        self.word(at).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Waits for a value, unless the client cannot.
    pub fn wait(&self, nothing: Resp) -> Done {
        if self.patience == Patience::None { Ok(nothing) } else { Err(Problem::Wait) }
    }

    /// Returns the value that elements are taken from. For a client that waits already, one of another type is none yet.
    pub fn source<T: DatumType>(&mut self, key: &[u8]) -> Result<Option<&mut T>, Problem> {
        match self.pass.value::<T>(self.db, key) {
            Err(Problem::Said(text)) if self.patience == Patience::Waiting && text.starts_with("WRONGTYPE") => Ok(None),
            found => found,
        }
    }

    /// Checks the time that a client is ready to wait.
    pub fn check_timeout(&self, at: usize) -> Result<(), Problem> {
        let seconds = self.float(at).map_err(|_| said("ERR timeout is not a float or out of range"))?;
        if seconds < 0.0 {
            return Err(said("ERR timeout is negative"));
        }
        let limit = i64::MAX as f64 / 1000.0;
        if seconds < limit { Ok(()) } else { Err(said("ERR timeout is out of range")) }
    }

    /// Reads words with `options`, which returns how many it took, until all are read.
    pub fn options(
        &self,
        mut at: usize,
        mut options: impl FnMut(&[u8], usize) -> Result<usize, Problem>,
    ) -> Result<(), Problem> {
        while at < self.words.len() {
            let name = self.word(at).to_ascii_uppercase();
            let taken = options(&name, at)?;
            if taken == 0 || at + taken > self.words.len() {
                return Err(SYNTAX_ERROR);
            }
            at += taken;
        }
        Ok(())
    }

    /// The number of a database.
    pub fn database(&self, word: &[u8]) -> Result<usize, Problem> {
        let number = usize::try_from(parse_integer(word)?).ok().filter(|number| *number < self.server.databases());
        number.ok_or(said("ERR DB index is out of range"))
    }

    /// The name of the command, for messages.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.word(0)).to_ascii_lowercase()
    }

    /// Reads the option `COUNT` behind the words before `at`: how many elements are popped, one if it is missing.
    pub fn popped_count(&self, at: usize) -> Result<usize, Problem> {
        let mut count = None;
        self.options(at, |name, at| {
            if name != b"COUNT" || count.is_some() || at + 1 >= self.words.len() {
                return Err(SYNTAX_ERROR);
            }
            let wanted = usize::try_from(self.integer(at + 1).unwrap_or(0)).ok().filter(|count| *count > 0);
            count = Some(wanted.ok_or(said("ERR count should be greater than 0"))?);
            Ok(2)
        })?;
        Ok(count.unwrap_or(1))
    }

    /// Reads a count of keys at `at`, and returns the keys behind it and the position behind them.
    pub fn counted_keys(&self, at: usize) -> Result<(&'c [Vec<u8>], usize), Problem> {
        let count = parse_integer(self.word(at)).unwrap_or(0);
        let Ok(count @ 1..) = usize::try_from(count) else {
            return Err(said("ERR numkeys should be greater than 0"));
        };
        let keys = at.checked_add(1).and_then(|at| self.words.get(at..at.checked_add(count)?));
        let keys = keys.ok_or(said("ERR Number of keys can't be greater than number of args"))?;
        Ok((keys, at + 1 + count))
    }
}

/// The words of a request that are keys.
pub fn keys_of<'w>(verb: &Verb, words: &'w [Vec<u8>]) -> Vec<&'w [u8]> {
    let KeyWords { first, last, step } = verb.keys;
    let count = i32::try_from(words.len()).unwrap_or(i32::MAX);
    let last = if last < 0 { count + last } else { last };
    let places = (first..=last).step_by(usize::try_from(step).unwrap_or(1).max(1)).filter(|at| *at > 0);
    places.filter_map(|at| words.get(usize::try_from(at).ok()?).map(Vec::as_slice)).collect()
}
