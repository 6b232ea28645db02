//! The store's reports. Their JSON form is stable, because scripts rely on it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

/// The places of an object's bytes: `terrace locate`.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Location {
    /// The object's key, printed lossily.
    pub key: String,
    /// Its length in bytes.
    pub length: u64,
    /// The sequence of the last commit that changed it.
    pub generation: u64,
    /// Its extents, in order.
    pub extents: Vec<ExtentLocation>,
}

/// One extent of a [`Location`].
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct ExtentLocation {
    /// The first byte's offset in the object.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The replicas, made and pending, nearest first.
    pub replicas: Vec<ReplicaLocation>,
}

/// One replica of an extent.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaLocation {
    /// The tier's name.
    pub tier: String,
    /// The target's path or name.
    pub target: String,
    /// The node that the target is on, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The encoding's name. Empty while the replica is pending.
    pub encoding: String,
    /// Whether it exists.
    pub state: ReplicaState,
    /// Length of its payload in bytes.
    pub stored: u64,
    /// The file that holds its frame, if the target is a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The offset of the frame in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// Whether a replica exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaState {
    /// It exists.
    Present,
    /// It is pending.
    Owed,
}

/// A summary of the store: `terrace status`.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Number of objects.
    pub objects: u64,
    /// Number of pending replicas.
    pub owed: u64,
    /// Objects that are to be planned again.
    pub unplanned: Unplanned,
    /// The progress of replanning, if the rules have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replanning: Option<Replanning>,
    /// The tiers, fastest first.
    pub tiers: Vec<TierStatus>,
}

/// Objects whose rules have changed, or that have other rules since they were renamed or copied, and that do not follow them yet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unplanned {
    /// Number of objects.
    pub objects: u64,
    /// Number of those that lack replicas, and wait for a tier that is away or for room.
    pub waiting: u64,
}

/// The progress of replanning, in the order of keys.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replanning {
    /// The last key that was checked, printed lossily.
    pub after: Option<String>,
}

/// One tier of a [`Status`].
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Allocated bytes on all its targets.
    pub used: u64,
    /// The limit for the bytes on all its targets together.
    pub capacity: u64,
    /// Number of replicas that are pending for it.
    pub queue: u64,
    /// The worst state of its targets.
    pub state: TierState,
}

/// The space of all targets, before encoding and replicas.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes in use and free. `u64::MAX` if a target has no limit.
    pub capacity: u64,
    /// Bytes that are free.
    pub free: u64,
}

/// The state of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TierState {
    /// It can be used.
    Ok,
    /// It takes no more bytes.
    Full,
    /// It can be read only.
    ReadOnly,
    /// It cannot be reached.
    Away,
}

/// One of the nodes that share a store: `terrace cluster status`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Whether it follows the store's log. A node that was killed is there until its lease ends.
    #[serde(rename = "there")]
    pub is_there: bool,
    /// The last commit that its catalog had when it last said so.
    pub reported: u64,
    /// Its targets, in the tiers' order.
    pub targets: Vec<NodeTarget>,
}

impl NodeState {
    pub(crate) fn away(name: &str) -> NodeState {
        NodeState { name: name.to_owned(), is_there: false, reported: 0, targets: Vec::new() }
    }
}

/// One target of a [`NodeState`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeTarget {
    /// The tier's name.
    pub tier: String,
    /// The target's address.
    pub path: String,
    /// The number of replicas on it.
    pub frames: u64,
    /// Their size in bytes, with headers.
    pub bytes: u64,
    /// The number of the node's start since which it serves the target; 0 if it never has.
    pub incarnation: u32,
    /// All its frames that commits up to this one name are synced.
    pub synced: u64,
    /// Whether frames that were not synced may be gone, because its machine has lost power. The node is looking.
    #[serde(rename = "doubtful")]
    pub is_doubtful: bool,
}

/// The result of a scrub or repair. Counts are of replicas.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Replicas read and verified.
    pub checked: u64,
    /// Of these, the number of damaged or missing ones.
    pub bad: u64,
    /// The number of bad replicas that were replaced.
    pub repaired: u64,
    /// The number of bad replicas in whose places a repair left pending ones, which another thread or node makes, or a later try. They do
    /// not count as bad.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub owed: u64,
    /// The number of replicas that a repair made on other targets, because those that they were owed to are away.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redirected: u64,
    /// Number of extents without a good replica, and without one on a target that is away.
    pub lost: u64,
    /// The number of replicas that were not read, because their targets are away.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub away: u64,
    /// The number of replicas in adopted files whose owners have changed them. They are not damaged, but hold other bytes now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed: u64,
    /// Number of extents with one replica that should have more, and have none pending.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub one_copy: u64,
    /// Number of extents with more than one replica, fewer than they should have, and none pending.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub few_copies: u64,
    /// The number of shared frames whose record has a wrong number of owners.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub miscounted: u64,
    /// The number of damaged files of the commit log.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_damaged: u64,
    /// The number of damaged files of the copies of the commit log that were not written again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_copies_damaged: u64,
    /// The number of copies of the commit log that lack the last changes, because their targets take no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_copies_behind: u64,
    /// The number of lost extents of each object, by its key as [`terrace_format::key::show`] writes it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_of: BTreeMap<String, u64>,
    /// The number of changed replicas of each object, by its key as above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed_of: BTreeMap<String, u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Scrubbed {
    pub(crate) fn add_lacking(&mut self, lacking: Lacking) {
        self.one_copy += lacking.single;
        self.few_copies += lacking.others;
    }
}

/// The numbers of extents that have fewer replicas than they should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// Those that have one.
    pub single: u64,
    pub others: u64,
}

impl Lacking {
    /// Returns the numbers for one extent that has this number of replicas, made or pending.
    pub fn of(replicas: usize, wanted: usize) -> Lacking {
        let lacks = replicas < wanted;
        Lacking { single: (lacks && replicas == 1).into(), others: (lacks && replicas != 1).into() }
    }
}

impl AddAssign for Lacking {
    fn add_assign(&mut self, more: Lacking) {
        self.single += more.single;
        self.others += more.others;
    }
}

/// The result of a salvage.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// Objects that were given a key.
    pub objects: u64,
    /// Length of these objects in bytes.
    pub bytes: u64,
    /// Objects that were left out, because bytes before the last known byte are missing.
    pub incomplete: u64,
    /// Extents of known objects whose replicas were not where the log says, and were found elsewhere.
    pub found_again: u64,
    /// Whether the log lacked commits.
    pub log_was_damaged: bool,
    /// The number of commits that it lacked, at most: a log that was begun again has skipped numbers.
    pub missing_commits: u64,
}

/// A store that was made again from a service.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Remade {
    /// The number of its objects.
    pub objects: u64,
    /// The keys of objects that have lost bytes, printed lossily.
    pub lost: Vec<String>,
    /// The targets that were not there, and were replaced by empty ones.
    pub targets: Vec<MovedTarget>,
    /// When the lost node last extended its copy of the log, in seconds since 1970. What came later is not in the store. None if the
    /// service does not tell.
    pub copied_at: Option<u64>,
    /// The result of the salvage, if that was asked for.
    pub salvaged: Option<Salvaged>,
}

/// A target that has another place now.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovedTarget {
    /// The name of its tier.
    pub tier: String,
    /// Its place before.
    pub before: PathBuf,
    /// Its place now.
    pub now: PathBuf,
}

/// The numbers of replicas that reads could not use, and that were replaced by others.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// Damaged or missing ones.
    pub damaged: u64,
    /// Those in adopted files that their owners have changed. The objects keep what was adopted, in files of the store.
    pub changed: u64,
}

/// The result of stage, evict or drain. Counts are of replicas.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Replicas that were made.
    pub made: u64,
    /// Replicas that were dropped from their targets.
    pub dropped: u64,
    /// Replicas that were left where they are (evict, drain) or not made (stage), because no other failure domain takes
    /// them.
    pub kept: u64,
    /// Those of `kept` whose other replicas are, or could only be, in memory. A move must not make bytes volatile.
    pub kept_from_memory: u64,
    /// Those of `kept` whose bytes cannot be read now, because targets are away or replicas are damaged.
    pub kept_unread: u64,
    /// Those of `kept` that were written, or moved by others, meanwhile.
    pub kept_busy: u64,
    /// Those of `kept` that are in adopted files which their owners have changed, by key. Nothing can be copied from them.
    pub changed: BTreeMap<String, u64>,
    /// Extents that have fewer replicas than before and fewer than they should have, because no other failure domain takes
    /// one.
    pub thinned: u64,
}

impl Moved {
    /// Adds what another move has done. What it has kept counts alone: it was looked at again.
    pub(crate) fn add(&mut self, next: &Moved) {
        self.made += next.made;
        self.dropped += next.dropped;
        self.thinned += next.thinned;
        self.kept = next.kept;
        (self.kept_from_memory, self.kept_unread, self.kept_busy) =
            (next.kept_from_memory, next.kept_unread, next.kept_busy);
        self.changed.clone_from(&next.changed);
    }

    /// Counts a replica that was to be made, and that cannot be made of an adopted file that its owner has changed.
    pub(crate) fn count_changed(&mut self, key: &[u8], would_leave: bool) {
        self.made = self.made.saturating_sub(1);
        self.dropped = self.dropped.saturating_sub(would_leave.into());
        self.kept += 1;
        *self.changed.entry(terrace_format::key::show(key)).or_default() += 1;
    }
}

/// The parts of a store and whether they can be removed: `terrace destroy`.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Remains {
    /// The number of users' objects. None if they cannot be counted.
    pub objects: Option<u64>,
    /// Their length in bytes.
    pub bytes: Option<u64>,
    /// The number of objects that Terrace keeps for itself, such as those of streams.
    pub records: u64,
    /// Why they cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Its targets.
    pub targets: Vec<TargetRemains>,
    /// Files of other programs in its directories. They stay, and so do the folders that hold them.
    pub kept: Vec<PathBuf>,
}

/// One target of a [`Remains`].
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct TargetRemains {
    /// The tier's name.
    pub tier: String,
    /// The target's path or name.
    pub target: String,
    /// The size of the store's files there, in bytes.
    pub used: u64,
    /// Whether its files can be removed.
    pub state: RemainState,
    /// Why it is away.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The files of a removed tier that are still there: `terrace tiers remove`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, Serialize)]
pub struct TierRemains {
    /// Its targets that are away. What the store has put there stays, and the store needs nothing of it.
    pub left: Vec<TargetRemains>,
    /// Files of other programs on its other targets. They stay, and so do the folders that hold them.
    pub kept: Vec<PathBuf>,
}

/// Whether the store's files on a target can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RemainState {
    /// They are there, and are removed.
    Present,
    /// The store has no files there.
    Nothing,
    /// The target cannot be reached, or is another one. The store's files on it stay.
    Away,
}

/// How safe the data of a store is: `terrace health`.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// The worst state of the findings; safe if there are none.
    pub health: HealthState,
    /// Whether `terrace node` runs on this store.
    pub node: bool,
    /// The last scrub of the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scrub: Option<LastScrub>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
}

impl Health {
    /// Adds findings, and keeps the worst first.
    pub fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.health));
        self.health = self.findings.first().map_or(HealthState::Safe, |worst| worst.health);
    }
}

/// The last scrub of a whole store.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastScrub {
    /// When it ended, in seconds since 1970.
    pub finished: u64,
    /// Its findings, without the names of objects.
    pub found: Scrubbed,
}

/// A state of the store's data, and how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    /// All data has its replicas and its durability.
    Safe,
    /// The store is working on it, and only needs time.
    Working,
    /// A user should act.
    Warning,
    /// Data is lost.
    Damaged,
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthState::Safe => "safe",
            HealthState::Working => "working",
            HealthState::Warning => "warning",
            HealthState::Damaged => "damaged",
        })
    }
}

/// One reason why a store's data is not safe.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The kind of the finding, for programs.
    pub code: FindingCode,
    /// How bad it is.
    pub health: HealthState,
    /// A description of the finding.
    pub message: String,
    /// Advice for the user.
    pub advice: &'static str,
}

impl Finding {
    /// Creates a finding about what the engine does not know, such as a dataset.
    pub fn new(code: FindingCode, health: HealthState, message: String, advice: &'static str) -> Finding {
        Finding { code, health, message, advice }
    }
}

/// The kinds of findings.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingCode {
    /// Replicas are pending.
    Owed,
    /// A power cut could destroy recent commits.
    NotDurable,
    /// The rules have changed, and objects are being planned again.
    Replanning,
    /// Objects do not follow their rules, because a tier is away or has no room.
    Waiting,
    /// A rule wants more replicas than there can be on its tiers.
    RuleUnmet,
    /// No target holds a copy of the commit log.
    LogOneCopy,
    /// A copy of the commit log on a service is behind its end.
    LogCopyBehind,
    /// A tier cannot be reached.
    TierAway,
    /// A tier can be read only.
    TierReadOnly,
    /// The slowest tier is full up to its high watermark.
    NearlyFull,
    /// Some replicas were not verified for a long time.
    ScrubOld,
    /// The last scrub found bad replicas that were not replaced.
    BadReplicas,
    /// Extents with one replica should have more, and have none pending: the last scrub found them, or a later move or eviction left them.
    OneCopy,
    /// Extents have more than one replica, and are to have more than they have.
    FewCopies,
    /// The last scrub found replicas in adopted files that their owners have changed.
    FilesChanged,
    /// The last scrub found shared frames with a wrong number of owners.
    Miscounted,
    /// The last scrub found damaged files of the commit log.
    LogDamaged,
    /// The last scrub found damaged files of copies of the commit log.
    LogCopyDamaged,
    /// A read, a scrub or an opening found bytes without a good replica.
    Lost,
    /// A node of a shared store does not follow the log.
    NodeAway,
    /// A node of a shared store looks for the frames that a loss of power has taken.
    TargetDoubtful,
    /// Objects of a dataset are gone, or its declaration cannot be read.
    DatasetIncomplete,
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FindingCode::Owed => "OWED",
            FindingCode::NotDurable => "NOT_DURABLE",
            FindingCode::Replanning => "REPLANNING",
            FindingCode::Waiting => "WAITING",
            FindingCode::RuleUnmet => "RULE_UNMET",
            FindingCode::LogOneCopy => "LOG_ONE_COPY",
            FindingCode::LogCopyBehind => "LOG_COPY_BEHIND",
            FindingCode::TierAway => "TIER_AWAY",
            FindingCode::TierReadOnly => "TIER_READ_ONLY",
            FindingCode::NearlyFull => "NEARLY_FULL",
            FindingCode::ScrubOld => "SCRUB_OLD",
            FindingCode::BadReplicas => "BAD_REPLICAS",
            FindingCode::OneCopy => "ONE_COPY",
            FindingCode::FewCopies => "FEW_COPIES",
            FindingCode::FilesChanged => "FILES_CHANGED",
            FindingCode::Miscounted => "MISCOUNTED",
            FindingCode::LogDamaged => "LOG_DAMAGED",
            FindingCode::LogCopyDamaged => "LOG_COPY_DAMAGED",
            FindingCode::Lost => "LOST",
            FindingCode::NodeAway => "NODE_AWAY",
            FindingCode::TargetDoubtful => "TARGET_DOUBTFUL",
            FindingCode::DatasetIncomplete => "DATASET_INCOMPLETE",
        })
    }
}

impl Serialize for FindingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
