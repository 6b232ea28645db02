//! [`Change`]: the only way in which a store's state changes, live or replayed from the log.

use serde::{Deserialize, Serialize};

use super::record::{Attributes, Extent, Replica, TargetId, Task};
use crate::Place;

// A field's meaning is in the variant's documentation.
#[allow(missing_docs)]
/// A condition for carrying out a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The key may name a file: no other file's key is a path prefix of it, and it is no path prefix of another file's key.
    Free(Vec<u8>),
    /// A replica is pending for an object with this key.
    Owed(Task, Vec<u8>),
    /// No replica of the object with this number is in a plain file, so its frames may be shared.
    NotPlain(Vec<u8>, u64),
    /// The frame has a replica on one of the targets `among` that is not the task's target.
    HasOther { task: Task, key: Vec<u8>, among: Vec<TargetId> },
    /// If the frame has a replica on one of these targets, it still has one after the pending replica is made and the replica that it
    /// replaces is dropped.
    KeepsOne { task: Task, key: Vec<u8>, among: Vec<TargetId> },
    /// The frame that the task names is gone: neither the object of this key nor a staged object holds it, and it is not shared.
    NoFrame(Task, Vec<u8>),
    /// In addition to the replica on the task's target, the frame has a synced replica on a persistent target of a live node. Only the index
    /// of a shared log knows this; elsewhere the condition never holds.
    KeepsSynced { task: Task, key: Vec<u8> },
    /// No frame of any object is on the target, and none is to be made there.
    Unused(TargetId),
}

/// An extent with its pending replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewExtent {
    /// The extent, with the replicas that exist.
    pub extent: Extent,
    /// The targets of pending replicas.
    pub owed: Vec<TargetId>,
}

// A field's meaning is that of the record's field of the same name.
#[allow(missing_docs)]
/// One step of a change. Replay relies on this: the same edits, applied in order to the same state, always give the same
/// state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    /// Records extents of an object that `key` will name later.
    Stage {
        object: u64,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        extents: Vec<NewExtent>,
    },
    /// Drops a staged object whose writer is dead.
    Unstage { object: u64 },
    /// Makes the key name the object, which holds the staged extents and these ones.
    Put {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        length: u64,
        want: u8,
        attributes: Attributes,
        /// Whether any of its extents were staged.
        staged: bool,
        extents: Vec<NewExtent>,
    },
    /// Adds extents to the object, over older ones. Creates the object (as `object`) if the key does not exist.
    Write {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        want: u8,
        mtime: i64,
        extents: Vec<NewExtent>,
    },
    /// Truncates or extends an object.
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
    /// Renames an object. An object that has the new key already is deleted.
    Rename {
        #[serde(with = "serde_bytes")]
        from: Vec<u8>,
        #[serde(with = "serde_bytes")]
        to: Vec<u8>,
    },
    /// A pending replica was made: registers it, and drops the replica that it replaces. If the frame is no longer wanted,
    /// frees the new replica's place instead.
    Made { task: Task, replica: Replica },
    /// Makes a replica pending: of the frame `task`, which belongs to `key`.
    Owe { task: Task, key: serde_bytes::ByteBuf, raw_len: u32, then_drop: Option<TargetId> },
    /// Deletes the task of a pending replica.
    Forgive { task: Task },
    /// A replica is damaged or missing: removes it, frees its place, and makes a new one pending on `owed`.
    Lost { task: Task, key: serde_bytes::ByteBuf, place: Place, owed: Option<TargetId> },
    /// These dead places on `target` were freed. Each is listed with the commit that queued it.
    Freed { target: TargetId, places: Vec<(u64, Place)> },
    /// A segment without live frames was deleted.
    Discarded { target: TargetId, segment: u64 },
    /// All commits up to `sequence` are synced, with their data.
    Synced { sequence: u64 },
    /// Replaces extents by others with the same bytes, as compaction does. Unlike after a `Write`, the object's generation stays,
    /// so that readers do not see a replacement.
    Merge {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        extents: Vec<NewExtent>,
    },
    /// Sets the number of replicas that an object's extents should have.
    Want {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        want: u8,
    },
    /// As of commit `sequence`, the name of the plain file for `key` on `target` is correct.
    Followed {
        target: TargetId,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        sequence: u64,
    },
    /// These edits of commit `sequence` were left out when the log was replayed, because a power cut destroyed their bytes.
    /// They stay left out.
    Void { sequence: u64, edits: Vec<u32> },
    /// Makes a hole of `start..end` in an object: it reads as zeros. The length does not change.
    Clear {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        start: u64,
        end: u64,
        mtime: i64,
    },
    /// Like `Stage`, but the extents name frames that exist: frames of the object at `from`, frames of a staged object, or shared frames.
    /// Each extent lists its source and the replicas at that time. From then on, these frames are shared.
    Share {
        object: u64,
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        #[serde(with = "serde_bytes")]
        from: Vec<u8>,
        want: u8,
        extents: Vec<NewExtent>,
    },
    /// Takes a target out of the store for good. What was freed there is forgotten, and from now on nothing is put there. A change must
    /// expect it to be unused.
    Retire { target: TargetId },
    /// Drops the stored bytes `start..end` of a file of an origin, which still has them. The range becomes a hole. Unlike after a `Clear`,
    /// the object's generation stays, because readers do not see a change.
    Uncache {
        #[serde(with = "serde_bytes")]
        key: Vec<u8>,
        object: u64,
        start: u64,
        end: u64,
    },
}

impl Edit {
    /// Returns whether no power cut can undo a commit of these edits once the log holds it durably. That is so if they name no new bytes, or
    /// remove the bytes that they name. It is not so if they share frames: these need their bytes, even if the edits remove the object that
    /// they share them with.
    pub fn need_no_bytes<'a>(edits: impl IntoIterator<Item = &'a Edit> + Clone) -> bool {
        let gives_back = |edit| matches!(edit, &Edit::Unstage { .. });
        let shares = |edit| matches!(edit, &Edit::Share { .. });
        let names_none = !edits.clone().into_iter().any(|edit| edit.new_extents().is_some());
        names_none || edits.clone().into_iter().any(gives_back) && !edits.into_iter().any(shares)
    }

    /// Returns the object that gets new extents by the edit, and these extents.
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

/// For the sequence of each commit with void edits: the indexes of these edits in the commit.
pub type Voids = std::collections::HashMap<u64, Vec<u32>>;

/// A list of edits, and the expectations under which they are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The expectations, which are checked before any edit is applied.
    pub expect: Vec<Expect>,
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

impl Change {
    /// Returns whether this adds bytes to the store and frees none.
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
