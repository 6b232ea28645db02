//! Replans objects whose policy has changed, because they were renamed or the rules changed. A file lists them until they are replanned, since
//! the process that knows of them may end earlier, and some must wait: for pending replicas, or for a tier that is away.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_format::key;
use terrace_system::replace;

use super::{Mover, REST_TIME};
use crate::config::Config;
use crate::report::Unplanned;
use crate::{Error, Result};

/// The list, in the store's directory: a line for each key, in hex, and the [`Following`]'s word. Only the holder of [`FOLLOWING_LOCK`] takes keys from it.
pub(crate) const LIST_FILE: &str = "unplanned";
/// Held while the list is read or written.
pub(crate) const LIST_LOCK: &str = "unplanned.lock";
/// Held while listed objects are replanned, so that a sync knows that none is half done.
pub(crate) const FOLLOWING_LOCK: &str = "following";
/// The number of listed objects that one round of the background thread looks at, and the share of a long list: the list is written again
/// after each round.
const MAX_LISTED_PER_ROUND: usize = 64;
const MAX_SHARE_PER_ROUND: usize = 8;

/// If a round of the background thread has let no object of a long list follow, for example because a tier is away, the next one is later.
const LONG_LIST_LINES: usize = 1000;
const LONG_LIST_PAUSE: Duration = Duration::from_secs(30);
const CHECK_WORD: &str = "check";
const AWAY_WORD: &str = "away";

/// How far an object follows its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Done,
    /// It is to be planned, once no replica of it is pending and all are there.
    ToPlan,
    /// It was planned. Once the new replicas are made, others may have to leave.
    ToCheck,
    /// It was planned, and would have more replicas if no tier were away or full.
    Waiting,
}

impl Following {
    /// Returns what is behind the key in a line of the list.
    fn word(self) -> String {
        match self {
            Following::Done | Following::ToPlan => String::new(),
            Following::ToCheck => format!(" {CHECK_WORD}"),
            Following::Waiting => format!(" {AWAY_WORD}"),
        }
    }
}

impl Mover {
    /// Notes a rename, so that the object is replanned if other rules apply to the new key.
    pub fn note_rename(self: &Arc<Self>, from: &[u8], to: &[u8]) {
        if let Err(error) = self.list_renamed(from, to) {
            // The rename is done. The object's replicas stay as they are.
            tracing::warn!(key = %key::show(to), %error, "a renamed object could not be noted, so its replicas follow the rules for its old key until the rules change");
        }
    }

    fn list_renamed(self: &Arc<Self>, from: &[u8], to: &[u8]) -> Result<()> {
        self.planning.rules.renew();
        // Objects that have not followed changed rules yet have replicas that no rule explains. The list may have the old key.
        if !self.follows_rules() || self.list_path().exists() || self.is_ruled_otherwise(from, to)? {
            self.list_unplanned(&[(to, Following::ToPlan)])?;
            self.start(true);
        }
        Ok(())
    }

    /// Returns whether the policy of the object with the key `to` would be another one under the key `from`.
    fn is_ruled_otherwise(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        if self.planning.rules.now().rules.is_empty() {
            return Ok(false);
        }
        let kept = self.planning.kept.of_replicas(to, self.catalog.object(to)?.as_ref());
        Ok(self.planning.policy(from, &kept).wanted != self.planning.policy(to, &kept).wanted)
    }

    /// Adds objects to the list.
    pub(super) fn list_unplanned(&self, objects: &[(&[u8], Following)]) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let lines: String = objects.iter().map(|(key, following)| key::hex(key) + &following.word() + "\n").collect();
        let _lock = self.locks.wait_for(LIST_LOCK)?;
        let path = self.list_path();
        let add = || {
            let mut list = File::options().create(true).read(true).append(true).open(&path)?;
            // A line that was not written to its end must not take the next one with it.
            let (length, mut last) = (list.metadata()?.len(), [b'\n']);
            if length > 0 {
                list.read_exact_at(&mut last, length - 1)?;
            }
            let begin = if last == [b'\n'] { "" } else { "\n" };
            list.write_all(format!("{begin}{lines}").as_bytes())
        };
        add().map_err(Error::io(format!("writing {}", path.display())))
    }

    /// Notes objects that were planned by `rules` and have just been committed, if the rules have changed since: other objects may have followed
    /// the new ones before.
    pub fn note_written(&self, rules: &Arc<Config>, keys: &[&[u8]]) {
        self.planning.rules.renew();
        if Arc::ptr_eq(rules, &self.planning.rules.now()) {
            return;
        }
        let objects: Vec<(&[u8], Following)> = keys.iter().map(|key| (*key, Following::ToPlan)).collect();
        if let Err(error) = self.list_unplanned(&objects) {
            // The write is done.
            tracing::warn!(%error, objects = keys.len(), "the rules changed during a write, which could not be noted, so what was written follows the old rules until the rules change again");
        }
    }

    /// Replans the listed objects, and returns how many are done. Waits for a process that does so already.
    pub fn follow_policies(&self) -> Result<usize> {
        if !self.list_path().exists() {
            return Ok(0);
        }
        let _alone = self.locks.wait_for(FOLLOWING_LOCK)?;
        self.follow_listed(usize::MAX)
    }

    /// Replans some of the listed objects, unless another process does so.
    pub(super) fn follow_some_policies(&self) -> Result<usize> {
        if !self.list_path().exists() {
            return Ok(0);
        }
        let mut next_round = self.state.next_following.lock();
        if next_round.is_some_and(|next| Instant::now() < next) {
            return Ok(0);
        }
        let Some(_alone) = self.locks.at_once(FOLLOWING_LOCK)? else { return Ok(0) };
        let started = Instant::now();
        let done = self.follow_listed(MAX_LISTED_PER_ROUND)?;
        // A list that takes long, because it is long or objects were read in vain, is not looked at all the time.
        let is_long = || {
            started.elapsed() > REST_TIME / 10
                || self.read_list().is_ok_and(|text| text.lines().count() > LONG_LIST_LINES)
        };
        *next_round = (done == 0 && is_long()).then(|| Instant::now() + LONG_LIST_PAUSE);
        Ok(done)
    }

    /// Replans at least `count` of the listed objects. Those that must wait go to the end of the list.
    fn follow_listed(&self, count: usize) -> Result<usize> {
        let text = self.read_list()?;
        let mut seen = HashSet::new();
        let mut listed: Vec<&str> = text.lines().filter(|line| seen.insert(*line)).collect();
        let next = listed.split_off(count.max(listed.len() / MAX_SHARE_PER_ROUND).min(listed.len()));
        let (mut waiting, mut failed, mut is_any_other) = (Vec::new(), Ok(()), false);
        for line in &listed {
            match self.follow_line(line) {
                Ok(None) => {}
                Ok(Some(now)) => {
                    is_any_other |= now != *line;
                    waiting.push(now);
                }
                Err(error) => {
                    waiting.push((*line).to_owned());
                    failed = Err(error);
                }
            }
        }
        let done = listed.len() - waiting.len();
        if done > 0 || is_any_other || !next.is_empty() {
            let _lock = self.locks.wait_for(LIST_LOCK)?;
            // Other processes have only added lines.
            let now = self.read_list()?;
            let added = now.get(text.len()..).unwrap_or_default().lines();
            self.write_list(next.into_iter().chain(added).chain(waiting.iter().map(String::as_str)))?;
        }
        failed.map(|()| done)
    }

    /// Lets the object of a line follow its policy, and returns the line that is to be in the place of this one.
    fn follow_line(&self, line: &str) -> Result<Option<String>> {
        let (hex, word) = line.split_once(' ').unwrap_or((line, ""));
        // A line that is no key was not written to its end.
        let Some(key) = key::unhex(hex) else { return Ok(None) };
        let Some(object) = self.catalog.object(&key)? else { return Ok(None) };
        let wanted = self.planning.policy(&key, &self.planning.kept.of_replicas(&key, Some(&object))).wanted;
        let is_as_before = match word {
            CHECK_WORD => self.catalog.owed_count(Some(object.id))? > 0,
            AWAY_WORD => self.lacks_tiers(&wanted) || !self.has_room_to_follow(&key, &wanted)?,
            _ => false,
        };
        if is_as_before {
            return Ok(Some(line.to_owned()));
        }
        if word == CHECK_WORD && self.fits(&key, &wanted)? {
            return Ok(None);
        }
        let following = self.follow_policy(&key, &object)?;
        Ok((following != Following::Done).then(|| format!("{hex}{}", following.word())))
    }

    /// Counts the listed objects.
    pub fn count_unplanned(&self) -> Result<Unplanned> {
        let (mut seen, mut count) = (HashSet::new(), Unplanned::default());
        for line in self.read_list()?.lines() {
            let (key, word) = line.split_once(' ').unwrap_or((line, ""));
            if seen.insert(key.to_owned()) {
                count.objects += 1;
                count.waiting += u64::from(word == AWAY_WORD);
            }
        }
        Ok(count)
    }

    fn list_path(&self) -> PathBuf {
        self.journal.dir.join(LIST_FILE)
    }

    fn read_list(&self) -> Result<String> {
        let path = self.list_path();
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            // Lines with other bytes are damaged, and no keys.
            read => {
                Ok(String::from_utf8_lossy(&read.map_err(Error::io(format!("reading {}", path.display())))?)
                    .into_owned())
            }
        }
    }

    fn write_list<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Result<()> {
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        let written =
            if text.is_empty() { fs::remove_file(self.list_path()) } else { replace(&self.list_path(), text) };
        written.map_err(Error::io("writing the list of objects to be replanned"))
    }
}
