//! Targets, which store frames.
//!
//! A [`Target`] is one device, directory or bucket. A [`TargetKind`] opens it by its configuration. Another crate adds a kind of
//! its own by [`register_kind`], with the least code as a [`FrameMap`]. Throttle, deadline and faults are decorators around any target.

mod again;
#[cfg(feature = "object")]
mod blobs;
mod capabilities;
#[cfg(feature = "object")]
mod checked_ranges;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod decorate;
mod directory;
mod emptied;
mod file_calls;
mod files;
mod frame_blobs;
mod frame_map;
mod home_lock;
mod kind;
mod kinds;
#[cfg(feature = "object")]
mod ledger;
mod memory;
mod named_blobs;
#[cfg(feature = "object")]
mod object;
mod origin;
mod owner_mark;
mod plain;
mod registry;
pub mod removal;
mod segment;
#[cfg(feature = "object")]
mod service;
mod service_address;
#[cfg(feature = "object")]
mod ssh_masters;
mod synced;
mod used;

#[cfg(feature = "object")]
pub use blobs::{BlobReader, Blobs, Upload};
pub use capabilities::Capabilities;
pub use directory::{DirectoryTarget, MARKER_FILE, Making, read_marker};
pub use emptied::EmptiedNote;
pub use files::{Adoption, FileStore, Whole};
pub use frame_blobs::{SEGMENTS_PREFIX, frame_place};
pub use frame_map::{FrameMap, MapKind};
pub use kind::{
    OpenedTarget, TargetFound, TargetKind, TargetOwner, TargetSettings, made_note, marker_text, read_marker_text,
};
#[cfg(not(feature = "object"))]
pub use kinds::unavailable;
pub use kinds::{DirectoryKind, MemoryKind, ObjectKind};
pub use memory::MemoryTarget;
pub use named_blobs::{CONFIG_BLOB, LOG_PREFIX, LogPiece, NamedBlobs, SYNCED_BLOB};
#[cfg(feature = "object")]
pub use object::ObjectTarget;
#[cfg(feature = "object")]
pub use origin::ServiceOrigin;
pub use origin::{
    DirectoryOrigin, Origin, OriginAddress, OriginEntry, OriginKind, OriginPlace, OriginReadError, is_recent,
};
pub use owner_mark::{OWNER_FILE, OwnerMark, TARGET_OWNER_FILE, check_owner};
pub use plain::{FILES_FOLDER, can_be_file};
pub use registry::{KindError, TierKind, register_kind};
#[cfg(feature = "object")]
pub use service::{Service, unavailable};
pub use service_address::ServiceAddress;
pub use synced::SyncedNote;
pub use used::Used;

use std::io;

use terrace_format::frame::{Frame, Header};

pub use terrace_format::{FRAME_ALIGNMENT, Ids, PLAIN_SEGMENT_BIT, Place, Reach};

/// The use and the capacity of a target, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Allocated bytes.
    pub used: u64,
    /// The most bytes that it may allocate, limited by the configuration and by the free space of its file system.
    pub capacity: u64,
    /// Whether it takes no writes, like a file system that is mounted read-only.
    pub read_only: bool,
}

impl Space {
    /// The space of a target that only the configuration limits.
    pub fn within(used: u64, capacity: u64) -> Space {
        Space { used, capacity, read_only: false }
    }
}

/// One device, directory, node or bucket of a tier.
///
/// Frames are stored at places that the target chooses, and no place is used twice. Several processes use a target at the same time, each by
/// an object of its own. [`FrameMap`] is a simpler interface.
///
/// Errors are the system's. `NotFound`, `UnexpectedEof` and `InvalidData` (damage) are about one frame, and `StorageFull` and
/// `ReadOnlyFilesystem` about space. For any other error the store sets the target aside for a while. A target that is not there returns
/// `NotConnected`, and never seems to be empty instead.
pub trait Target: Send + Sync {
    /// Writes a frame at a new place, and returns the place. When it returns, all processes can read the frame. It need not be durable.
    ///
    /// [`Header::write`](terrace_format::frame::Header::write) writes the header for a place, and the payload follows. [`Used::take`] counts
    /// the bytes; its result must live until they are stored. If that fails, call [`Used::make_stale`].
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place>;

    /// Fills `out` with the frame's bytes from `skip` on, where the header counts, too. `NotFound` if they do not exist.
    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()>;

    /// Whether a frame is whole on the target itself, although its bytes arrived damaged. Called after a read whose checksums were
    /// wrong: a target behind a network asks its other end, so that what was damaged on the way is not taken for a bad replica.
    ///
    /// # Errors
    /// If the other end cannot be asked.
    fn is_whole(&self, _place: Place) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes all bytes in these segments durable, and the names of the segments. A segment that is gone is no error.
    fn sync(&self, segments: &[u64]) -> io::Result<()>;

    /// Frees the space of frames. Freeing a place twice does no harm.
    fn free(&self, places: &[Place]) -> io::Result<()>;

    /// Deletes a segment without live frames. It stays if a writer has it open. Returns whether it is gone.
    fn discard(&self, segment: u64) -> io::Result<bool>;

    /// The bytes that a segment takes on the device. They exceed its live bytes if the space of dead frames could not be
    /// freed. 0 on targets where that cannot happen.
    fn allocated(&self, _segment: u64) -> u64 {
        0
    }

    /// Whether a sync of a segment has failed, and its frames were not written again since. Until then, each sync of it reads all its
    /// frames, also those that no commit names, and fails if one is not whole.
    fn sync_failed(&self, _segment: u64) -> bool {
        false
    }

    /// The allocated bytes, and the limit.
    fn space(&self) -> io::Result<Space>;

    /// The allocated bytes, as all processes have counted them. Does no I/O.
    fn used(&self) -> u64;

    /// Calls `found` with each whole frame header on the target, and holds no lock meanwhile, because `found` may read. Does not read
    /// payloads: the first `MAX_HEADER` bytes of a frame are enough for [`Header::read`].
    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()>;

    /// Checks that the target is reachable and belongs to the store. Makes it, if it is empty and may be made.
    ///
    /// # Errors
    /// `AlreadyExists` if the place belongs to another store or target. `NotConnected` if the target is not there. `ResourceBusy` if
    /// another copy of the store's directory has it in use.
    fn ready(&self) -> io::Result<()> {
        Ok(())
    }

    /// Checks again, without relying on an earlier check, that the target is reachable and belongs to the store.
    ///
    /// # Errors
    /// As [`Target::ready`].
    fn check_again(&self) -> io::Result<()> {
        self.ready()
    }

    /// Notes on the target that it holds the frames of all commits up to `reach.sequence`, after some were added, and the log a record. A target
    /// that lacks the last such note is an older copy of itself, and one whose note names a record that the log lacks was used with another copy
    /// of the store's directory: it is [`Target::is_new`] once [`Target::ready`] has checked it. Targets whose copies the store recognizes by
    /// other notes do nothing.
    fn note_synced(&self, _reach: Reach) -> io::Result<()> {
        Ok(())
    }

    /// Returns the last note that [`Target::note_synced`] has left on the target. `None` if there is none, or the target needs no such notes.
    fn synced_to(&self) -> io::Result<Option<Reach>> {
        Ok(None)
    }

    /// Notes, durably, that the catalog may list replicas that are not on the target: [`Target::is_new`] is true from then on. A target that
    /// may lack frames only while it is empty need not do anything.
    fn note_new(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether the catalog may list replicas that are not on the target: it was just made, was found emptied, or is an older copy.
    fn is_new(&self) -> bool {
        false
    }

    /// Called once the replicas that were on it are pending again, or known to be lost: [`Target::is_new`] is false from then on.
    fn forget_new(&self) -> io::Result<()> {
        Ok(())
    }

    /// The plain files, if the target supports them.
    fn files(&self) -> Option<&dyn FileStore> {
        None
    }

    /// The blobs beside the frames, if the target can hold a copy of the log in pieces.
    fn named_blobs(&self) -> Option<&dyn NamedBlobs> {
        None
    }

    /// The file that holds a segment, for people who look for it, if it is a file.
    fn file(&self, _segment: u64) -> Option<std::path::PathBuf> {
        None
    }
}
