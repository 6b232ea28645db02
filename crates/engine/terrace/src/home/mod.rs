//! The store's directory: its files, its users, and the locks of its processes.

mod appends;
mod bad_replica;
pub mod boot;
mod cluster;
mod filesystem;
mod id_check;
mod identity;
mod incarnation;
pub mod known_log;
mod leases;
mod lock;
mod locks;
mod machine;
mod mounts;
mod mounts_noted;
mod node_local;
mod opened;
mod original;
mod owner;
mod place_check;
mod rules;
mod salvage_note;
mod scrub_record;
mod sole;
mod target_note;
mod trust;

pub use appends::AppendLocks;
pub use bad_replica::{BadReplica, MAX_LISTED_REPLICAS};
pub use cluster::{Access, Cluster, Consistency, refuse_if_shared};
pub use id_check::{check_id, marked_id};
pub use identity::{
    DESTROYED_LINE, FORMAT_VERSION, has_log, holds_files, is_home, lost_identity, read_config, read_state, refuse,
    write_file,
};
pub use leases::Leases;
pub use lock::{StoreLock, lock_new_store, lock_store};
pub use locks::{Duty, Locks};
pub use mounts::{Mount, Mounts};
pub use mounts_noted::{MOUNTS_FILE, find_remounted, note_mounts};
pub use opened::{OPENED_FILE, note_opened, part_from_copies, skip_numbers};
pub use original::{check_identity, describe_copy, find_original, note_place};
pub use owner::note_owner;
pub use place_check::check_place;
pub use rules::Rules;
pub use salvage_note::{SALVAGE_FILE, SalvageNote};
pub use scrub_record::{SCRUB_RECORD_LOCK, ScrubRecord};
pub use sole::{Sole, take_sole};
pub use target_note::TargetNote;
pub use trust::{Trust, Trusted};
