//! [`Change`]: the only way in which a store's state changes, live or replayed from the log.

use serde::{Deserialize, Serialize};

use super::record::{Attributes, Extent, Replica, TargetId, Task};
use crate::Place;

// A field's meaning is in the variant's documentation.
#[allow(missing_docs)]
/// A condition for carrying out a change.
#[derive(Clone, Debug)]
pub enum Expect {
    /// The key names an object of this generation.
    Generation(Vec<u8>, u64),
    /// The key names an object.
    Exists(Vec<u8>),
    /// The key names the object of this number.
    Names(Vec<u8>, u64),
    /// The key names an object of this length, in bytes.
    Length(Vec<u8>, u64),
    /// The key names none.
    Absent(Vec<u8>),
    /// The key may be a file's: no other file's key is a path prefix of it, nor it of another's.
    Free(Vec<u8>),
    /// A replica is owed to an object of this key.
    Owed(Task, Vec<u8>),
    /// No replica of the object of this number is in a plain file: its frames may be shared.
    NotPlain(Vec<u8>, u64),
    /// Beside the replica on the task's target, its frame has one on one of these targets.
    HasOther { task: Task, key: Vec<u8>, among: Vec<TargetId> },
    /// Once the pending replica is made, and what it replaces is dropped, its frame has a replica on one of these targets; or had
    /// none before.
    KeepsOne { task: Task, key: Vec<u8>, among: Vec<TargetId> },
}

/// An extent together with the replicas that it still owes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewExtent {
    /// The extent, with the replicas that exist.
    pub extent: Extent,
    /// Targets that are to get one.
    pub owed: Vec<TargetId>,
}

// A field's meaning is that of the record's field of the same name.
#[allow(missing_docs)]
/// One step of a change. Applied in order to one state they give one state: replay relies on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    /// Records extents of an object that `key` is to name later.
    Stage {
        object: u64,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        extents: Vec<NewExtent>,
    },
    /// Drops a staged object whose writer is gone.
    Unstage { object: u64 },
    /// Makes the key name the object, which holds the staged extents and these.
    Put {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        length: u64,
        want: u8,
        attributes: Attributes,
        /// Whether extents of it were staged.
        staged: bool,
        extents: Vec<NewExtent>,
    },
    /// Lays extents over the object's; makes it (as `object`) where the key names none.
    Write {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        want: u8,
        mtime: i64,
        extents: Vec<NewExtent>,
    },
    /// Cuts or extends an object.
    SetLength {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        length: u64,
        mtime: i64,
    },
    /// Replaces an object's attributes.
    SetAttributes {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        attributes: Attributes,
    },
    /// Deletes an object.
    Remove {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
    },
    /// Gives an object another key; what was there is deleted.
    Rename {
        #[serde(with = "serde_bytes")]
        from: Vec<u8>,
        #[serde(with = "serde_bytes")]
        to: Vec<u8>,
    },
    /// An owed replica was made: registers it and drops the one that it stands in for. Where the
    /// frame is no longer wanted, the replica's place is freed instead.
    Made { task: Task, replica: Replica },
    /// A replica is owed: of the frame `task`, which belongs to `key`.
    Owe { task: Task, key: serde_bytes::ByteBuf, raw_len: u32, then_drop: Option<TargetId> },
    /// A replica is no longer owed.
    Forgive { task: Task },
    /// A replica is damaged or gone: it is taken off, its place freed, and a new one owed to `owed`.
    Lost { task: Task, key: serde_bytes::ByteBuf, place: Place, owed: Option<TargetId> },
    /// Places on `target` that commits of these sequences queued were given back.
    Freed { target: TargetId, places: Vec<(u64, Place)> },
    /// A segment that held nothing alive was deleted.
    Discarded { target: TargetId, segment: u64 },
    /// All up to commit `sequence` is fsynced, data included.
    Synced { sequence: u64 },
    /// Lays extents over those of the same bytes: the object does not change.
    Merge {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        extents: Vec<NewExtent>,
    },
    /// Sets how many replicas an object's extents are to have.
    Want {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        want: u8,
    },
    /// Under a key of `target` stands what belonged there at commit `sequence`.
    Followed {
        target: TargetId,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        sequence: u64,
    },
    /// The edits at these places of commit `sequence` were not carried out when the log was replayed, and never will be:
    /// their bytes were lost with the power.
    Void { sequence: u64, edits: Vec<u32> },
    /// Takes `start..end` out of an object: it reads as zeros. The length stays.
    Clear {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        start: u64,
        end: u64,
        mtime: i64,
    },
    /// Records extents of an object that `key` is to name later, as `Stage` does. They name frames of the object or the staged
    /// object at `from`, or shared ones, each with its source and, as it was then, its replicas. These frames are shared from
    /// then on.
    Share {
        object: u64,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        #[serde(with = "serde_bytes")]
        from: Vec<u8>,
        want: u8,
        extents: Vec<NewExtent>,
    },
}

impl Edit {
    /// Whether a commit of these edits holds once the log holds it durably, whatever bytes a power cut takes: it names no new
    /// bytes, or gives back itself what it names. One that shares frames needs them, also where it gives up what they were
    /// shared with.
    pub fn need_no_bytes<'a>(edits: impl IntoIterator<Item = &'a Edit> + Clone) -> bool {
        let gives_back = |edit| matches!(edit, &Edit::Unstage { .. });
        let shares = |edit| matches!(edit, &Edit::Share { .. });
        let names_none = !edits.clone().into_iter().any(|edit| edit.new_extents().is_some());
        names_none || edits.clone().into_iter().any(gives_back) && !edits.into_iter().any(shares)
    }

    /// The object that gets new extents by the edit, and these extents.
    pub fn new_extents(&self) -> Option<(u64, &[NewExtent])> {
        match self {
            Edit::Stage { object, extents, .. }
            | Edit::Put { object, extents, .. }
            | Edit::Write { object, extents, .. }
            | Edit::Merge { object, extents, .. }
            | Edit::Share { object, extents, .. } => Some((*object, extents)),
            _ => None,
        }
    }
}

/// Places of edits that are void, by the sequence of their commit.
pub type Voids = std::collections::HashMap<u64, Vec<u32>>;

/// A change, and what it expects.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Checked before any edit is applied.
    pub expect: Vec<Expect>,
    /// The steps.
    pub edits: Vec<Edit>,
}

impl Change {
    /// Whether bytes come into the store by this, and none are given up.
    pub fn brings_bytes(&self) -> bool {
        let brings = |edit: &Edit| {
            matches!(
                edit,
                Edit::Stage { .. } | Edit::Put { .. } | Edit::Write { .. } | Edit::Merge { .. } | Edit::Share { .. }
            )
        };
        let gives_up = |edit: &Edit| matches!(edit, Edit::Unstage { .. } | Edit::Remove { .. });
        self.edits.iter().any(brings) && !self.edits.iter().any(gives_up)
    }
}

impl From<Edit> for Change {
    fn from(edit: Edit) -> Self {
        Change { expect: Vec::new(), edits: vec![edit] }
    }
}
