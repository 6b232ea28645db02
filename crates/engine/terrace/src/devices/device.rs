//! A target in use: its speed, its use of space, and whether it works.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use terrace_catalog::{Replica, TargetId};
use terrace_codec::Encoding;
use terrace_format::frame::{self, Frame, Identity, with_scratch};
use terrace_tier::{Capabilities, Place, Space, Target};

use super::monitor::Speed;
use super::once_encoded::OnceEncoded;
use super::trouble::Trouble;
use crate::report::TierState;

/// The capacity of a target in memory, divided by the bytes that garbage may take there.
const MAX_GARBAGE_DIVISOR: u64 = 8;

/// A target of a tier.
pub struct Device {
    /// Its number.
    pub id: TargetId,
    /// The index of its tier; tier 0 is the fastest.
    pub tier: usize,
    /// The number of its failure domain. Replicas of one extent never share one.
    pub domain: u32,
    /// The name of the node that it is on, if it is known.
    pub node: Option<String>,
    /// Whether that is this machine's node of a shared store.
    pub is_near: bool,
    /// Its place: a path, or a service and a path on it.
    pub path: PathBuf,
    /// The target itself: usually a `DirectoryTarget`, perhaps decorated.
    pub target: Arc<dyn Target>,
    /// The limit for the bytes that it may allocate, as it was when last read.
    pub(super) capacity: AtomicU64,
    /// The number of operations in progress.
    pub(super) busy: AtomicU32,
    /// Its speed for reads.
    pub reading: Speed,
    /// Its speed for writes.
    pub writing: Speed,
    /// Whether it is on this machine, without a throttle or a timeout. The caller's own thread then writes small frames to it.
    pub is_local: bool,
    /// Whether its bytes are in this machine's memory, so that a power cut takes all of them.
    pub is_in_memory: bool,
    /// The bytes that this process has appended to such a target since garbage there was freed. Relaxed: a thread that reads it late frees
    /// later.
    pub(super) appended: AtomicU64,
    /// The abilities of its kind.
    pub capabilities: Capabilities,
    pub(super) trouble: Trouble,
    /// Whether it was taken out of the store. Relaxed: who reads it late finds a target that is away.
    pub(super) is_retired: AtomicBool,
    /// Whether the node that serves it had no lease of the shared log when the catalog was last asked. Relaxed, for the same reason.
    pub(super) is_node_away: AtomicBool,
}

impl Device {
    /// About the most space that a frame takes in addition to its payload.
    pub const FRAMING_BYTES: u64 = 8 << 10;

    /// The number of operations that a device is assumed to do at the same time.
    pub const DEVICE_LANES: u16 = 4;

    /// Returns about how many bytes are in use.
    pub fn filled(&self) -> u64 {
        self.target.used()
    }

    /// Returns about how many bytes of payload fit. Headers and partly filled pages take a little of the free space.
    pub fn free(&self) -> u64 {
        let free = self.capacity.load(Ordering::Relaxed).saturating_sub(self.filled());
        free.saturating_sub(free / 128 + Device::FRAMING_BYTES)
    }

    /// Like [`Device::free`], but only up to this share of its capacity.
    pub fn free_below(&self, mark: f64) -> u64 {
        let capacity = self.capacity.load(Ordering::Relaxed);
        self.free().saturating_sub((capacity as f64 * (1.0 - mark)) as u64)
    }

    /// Returns this share of its capacity, in bytes.
    pub fn capacity_below(&self, mark: f64) -> u64 {
        (self.capacity.load(Ordering::Relaxed) as f64 * mark) as u64
    }

    /// Returns the number of this process's operations in progress, divided by the number that it can do at the same time.
    pub fn load(&self) -> f64 {
        f64::from(self.busy.load(Ordering::Relaxed)) / f64::from(Device::DEVICE_LANES)
    }

    /// Returns the same target for another list of targets, in which its failure domain has another number.
    pub(super) fn again(&self, domain: u32) -> Device {
        Device {
            domain,
            node: self.node.clone(),
            path: self.path.clone(),
            capacity: AtomicU64::new(self.capacity.load(Ordering::Relaxed)),
            busy: AtomicU32::new(0),
            appended: AtomicU64::new(0),
            target: self.target.clone(),
            reading: self.reading.again(),
            writing: self.writing.again(),
            trouble: Trouble::default(),
            // A stale value is harmless: see the fields.
            is_retired: AtomicBool::new(self.is_retired()),
            is_node_away: AtomicBool::new(self.is_node_away.load(Ordering::Relaxed)),
            ..*self
        }
    }

    /// Writes one replica of an extent: encoded, checksummed, appended.
    pub fn append_extent(&self, identity: Identity, encoding: Encoding, raw: &[u8]) -> io::Result<Replica> {
        with_scratch(|scratch| {
            let frame = frame::encode(identity, encoding, raw, scratch).map_err(|e| io::Error::other(e.to_string()))?;
            self.append_replica(&frame)
        })
    }

    /// Like [`Device::append_extent`], but takes the bytes as they were encoded for another replica, if there are several.
    pub fn append_one_of_several(
        &self,
        identity: Identity,
        encoding: Encoding,
        raw: &[u8],
        once: Option<&OnceEncoded>,
    ) -> io::Result<Replica> {
        // Bytes that are stored raw are only checksummed, which is quick.
        match once.filter(|_| encoding != Encoding::NONE) {
            Some(once) => self.append_replica(&once.get(encoding, raw)?.of(identity, raw)),
            None => self.append_extent(identity, encoding, raw),
        }
    }

    fn append_replica(&self, frame: &Frame<'_>) -> io::Result<Replica> {
        let (stored, encoding) = (frame.header.stored_len, frame.header.encoding);
        let place = self.append(frame)?;
        Ok(Replica { target: self.id, place, stored, encoding })
    }

    /// Appends a frame, and notes how long it took.
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let _busy = Busy::with(self);
        let start = Instant::now();
        let place = self.target.append(frame)?;
        if self.is_in_memory {
            self.appended.fetch_add(u64::from(place.length), Ordering::Relaxed); // see the field
        }
        self.works(|_| true);
        self.writing.note(place.length as usize, start.elapsed());
        Ok(place)
    }

    /// Returns how many bytes of garbage may stay on a target in memory for readers.
    pub fn max_garbage(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed) / MAX_GARBAGE_DIVISOR
    }

    /// Returns whether half of its capacity is taken.
    pub fn is_half_full(&self) -> bool {
        self.filled() > self.capacity.load(Ordering::Relaxed) / 2
    }

    /// Returns whether writers are to free garbage now, before the next bytes go to other targets. This process has appended more than
    /// [`Device::max_garbage`] since the last time, and less than a quarter of the target is free. To free it sooner would only make the
    /// disks sync more often.
    pub fn must_free_garbage(&self) -> bool {
        let appended = self.appended.load(Ordering::Relaxed); // see the field
        self.is_in_memory
            && appended > self.max_garbage()
            && self.filled() > self.capacity.load(Ordering::Relaxed) / 4 * 3
    }

    /// Notes that the garbage is freed now, as far as it can be.
    pub fn forget_appended(&self) {
        self.appended.store(0, Ordering::Relaxed); // see the field
    }

    /// Adds a raw frame to a plain file, and notes how long it took.
    pub fn write_plain(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let _busy = Busy::with(self);
        let start = Instant::now();
        let files = self.target.files().ok_or(io::ErrorKind::Unsupported)?;
        let place = files.write_frame(file, frame)?;
        self.works(|_| true);
        self.writing.note(place.length as usize, start.elapsed());
        Ok(place)
    }

    /// The allocated space and its limit.
    pub fn space(&self) -> io::Result<Space> {
        let space = self.target.space()?;
        self.capacity.store(space.capacity, Ordering::Relaxed);
        if space.read_only {
            self.failed(&io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(space)
    }

    /// Reads from a frame, and notes how long it took.
    pub fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let _busy = Busy::with(self);
        let start = Instant::now();
        self.target.read(place, skip, out)?;
        // A successful read does not prove that a full or read-only target can be written to again.
        self.works(|state| state == TierState::Away);
        self.reading.note(out.len(), start.elapsed());
        Ok(())
    }

    /// Returns its last known state.
    pub fn state(&self) -> TierState {
        let is_cut_off = self.is_retired() || self.is_node_away.load(Ordering::Relaxed); // see the fields
        if is_cut_off { TierState::Away } else { self.trouble.state() }
    }

    /// Returns whether the target was taken out of the store while this process had it open.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed) // see the field
    }

    /// Stops using the target for a while, if the error is one of the device and not of a single frame.
    pub fn failed(&self, error: &io::Error) {
        let state = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => TierState::Full,
            io::ErrorKind::ReadOnlyFilesystem => TierState::ReadOnly,
            io::ErrorKind::NotFound | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => return,
            io::ErrorKind::FileTooLarge => return,
            _ => TierState::Away,
        };
        if !self.trouble.begins(state) {
            return;
        }
        let happened = match state {
            TierState::Full => "the target is full",
            TierState::ReadOnly => "the target is read-only",
            _ => "the target failed",
        };
        tracing::warn!(target = %self.path.display(), %error, "{happened} and is not used for now; it is retried, and `terrace status` shows its state");
    }

    /// Stops using the target for a while after a failed write, whatever the error: otherwise the writer would plan again
    /// and choose the same target.
    pub fn failed_to_write(&self, error: &io::Error) {
        self.failed(error);
        if self.state() == TierState::Ok && self.trouble.begins(TierState::Away) {
            tracing::warn!(target = %self.path.display(), %error, "a write to the target failed, and it is not used for now; it is retried, and `terrace status` shows its state");
        }
    }

    /// Notes a successful operation, which ends the trouble if `over` says so.
    fn works(&self, over: impl Fn(TierState) -> bool) {
        if self.trouble.ends(over) {
            tracing::info!(target = %self.path.display(), "the target works again");
        }
    }

    /// Clears the trouble, so that the next operation tries the target again.
    pub fn try_again(&self) {
        self.trouble.try_again();
    }

    /// Returns whether the last write of this process to it was refused for want of room.
    pub fn has_refused_bytes(&self) -> bool {
        self.trouble.has_refused_bytes()
    }
}

/// An operation in progress, until it is dropped. The count is relaxed: it only serves to choose between targets, and no
/// data depends on it.
struct Busy<'a>(&'a AtomicU32);

impl Busy<'_> {
    fn with(device: &Device) -> Busy<'_> {
        device.busy.fetch_add(1, Ordering::Relaxed); // see `Busy`
        Busy(&device.busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed); // see `Busy`
    }
}
