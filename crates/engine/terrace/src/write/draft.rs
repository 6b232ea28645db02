//! [`Draft`]: one object while it is written.

use std::io::{self, Read};
use std::ops::Range;
use std::time::Instant;

use terrace_catalog::{Change, Commit, Edit, Expect, Extent, NewExtent, Replica, TargetId, Task};
use terrace_codec::Element;
use terrace_format::frame::{Identity, with_block};
use terrace_format::key;

use super::plain::WholeOn;
use super::{MakeRoom, Writer};
use crate::devices::OnceEncoded;
use crate::place::{Placer, ReplicaPlan, ReplicaPlans, WritePolicy};
use crate::report::Lacking;
use crate::sparse::ReadHoles;
use crate::{Error, Result};

/// Extents up to this length get all their fast replicas at once, on the caller's thread.
const INLINE_BYTES: usize = 64 << 10;

/// Cuts a stream of bytes into extents and writes their first replicas.
pub(crate) struct Draft<'a> {
    writer: &'a Writer,
    room: &'a dyn MakeRoom,
    pub(crate) key: &'a [u8],
    pub(crate) object: u64,
    placer: Placer<'a>,
    /// The lowest number of replicas, made or pending, that an extent was given.
    least_replicas: usize,
    pub(crate) offset: u64,
    pub(crate) extents: Vec<NewExtent>,
    pub(crate) staged: bool,
    unstaged_bytes: u64,
    pub(crate) owed: u64,
    pub(crate) owed_to: Vec<(TargetId, u64)>,
    plain: WholeOn,
    /// The range of the object that was written.
    pub(crate) range: Range<u64>,
    /// The number of replicas of the extent with the fewest. None if nothing was written.
    pub(crate) have: Option<u8>,
    /// The extents that get fewer replicas than they are to have.
    pub(crate) lacking: Lacking,
    pub(crate) stored: u64,
    /// Whether a first replica went to a target with a higher latency than was asked for.
    pub(crate) is_slow: bool,
}

/// Ranges of an object, which become visible together.
pub(crate) struct Update<'r> {
    /// The object's number. None if the commit creates the object.
    pub named: Option<u64>,
    /// The length that the object must still have at the commit, if that matters.
    pub length: Option<u64>,
    /// Offsets, and the bytes for them. Where ranges overlap, the later one wins.
    pub ranges: &'r [(u64, &'r [u8])],
    pub mtime: i64,
}

impl Writer {
    /// Begins to write to an object. Nothing is visible before a commit names it.
    pub(crate) fn draft<'a>(
        &'a self,
        room: &'a dyn MakeRoom,
        key: &'a [u8],
        object: u64,
        policy: &WritePolicy,
        element: Option<Element>,
    ) -> Draft<'a> {
        Draft {
            writer: self,
            room,
            key,
            object,
            placer: self.planning.placer(key, element, policy.wanted),
            least_replicas: usize::MAX,
            offset: 0,
            extents: Vec::new(),
            staged: false,
            unstaged_bytes: 0,
            owed: 0,
            owed_to: Vec::new(),
            plain: WholeOn::default(),
            range: 0..0,
            have: None,
            lacking: Lacking::default(),
            stored: 0,
            is_slow: false,
        }
    }
}

impl<'a> Draft<'a> {
    /// Makes sure that an object with plain files stays complete on their targets.
    pub(crate) fn stays_plain(&mut self, exists: bool) -> Result<()> {
        if exists && self.writer.planning.rules.now().has_plain() {
            self.plain = WholeOn::new(self.writer.catalog.plain_targets(self.object)?);
        }
        Ok(())
    }

    /// Plans replicas as for another key.
    pub(crate) fn plan_as(&mut self, key: &'a [u8], policy: &WritePolicy, element: Option<Element>) {
        self.placer = self.writer.planning.placer(key, element, policy.wanted);
    }

    /// Writes all of `source`. Its holes get no extents.
    pub(crate) fn fill(&mut self, source: &mut impl ReadHoles) -> Result<()> {
        self.fill_by(source, Draft::add)
    }

    /// Like [`Draft::fill`], but `add` writes the extents.
    pub(crate) fn fill_by(
        &mut self,
        source: &mut impl ReadHoles,
        mut add: impl FnMut(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let length = self.writer.block_bytes;
        with_block(|block| {
            loop {
                block.clear();
                block.reserve(length);
                let read = source.pass_hole().and_then(|hole| {
                    let past = self.offset.checked_add(hole).ok_or(io::ErrorKind::FileTooLarge)?;
                    self.offset = past;
                    source.take(length as u64).read_to_end(block)
                });
                read.map_err(|e| Error::io(format!("reading the bytes of {:?}", key::show(self.key)))(e))?;
                if block.is_empty() {
                    return Ok(());
                }
                add(self, block)?;
            }
        })
    }

    /// Writes one extent. If many extents are not recorded yet, records them.
    pub(crate) fn add(&mut self, block: &[u8]) -> Result<()> {
        self.write_block(block)?;
        self.stage_if_many()
    }

    /// Adds one extent whose first replica, which `make` names, is there already. Further replicas are made as those of any extent.
    pub(crate) fn add_made(&mut self, raw: &[u8], make: impl FnOnce(Identity) -> Result<Replica>) -> Result<()> {
        let mut extent = self.new_extent(raw)?;
        let identity = Identity { object: self.object, write: extent.write, offset: extent.offset, replica: 0 };
        extent.replicas.push(make(identity)?);
        self.write_extent(raw, extent, ReplicaPlans::new())?;
        self.stage_if_many()
    }

    /// Returns the length of an extent that is not the last before a hole or the end.
    pub(crate) fn block_bytes(&self) -> usize {
        self.writer.block_bytes
    }

    /// Returns whether the object may have replicas on a tier.
    pub(crate) fn allows(&self, level: usize) -> bool {
        self.placer.allowed([level]).has(level as u8)
    }

    fn stage_if_many(&mut self) -> Result<()> {
        if self.unstaged_bytes >= self.writer.stage_bytes {
            let extents = std::mem::take(&mut self.extents);
            let stage = Edit::Stage { object: self.object, key: self.key.to_vec(), extents };
            self.writer.catalog.commit(stage.into())?;
            self.staged = true;
            self.unstaged_bytes = 0;
            terrace_system::fail::point("put:staged");
        }
        Ok(())
    }

    /// Writes ranges to the object, and makes all of them visible by one commit.
    pub(crate) fn commit_ranges(&mut self, update: &Update<'_>) -> Result<Commit> {
        let committed = self.write_and_commit(update);
        if committed.is_err() {
            self.abandon();
        }
        committed
    }

    fn write_and_commit(&mut self, update: &Update<'_>) -> Result<Commit> {
        let &Update { named, length, ranges, mtime } = update;
        for (offset, bytes) in ranges {
            key::check_end(self.key, *offset, bytes.len() as u64)?;
            self.offset = *offset;
            bytes.chunks(self.writer.block_bytes).try_for_each(|block| self.write_block(block))?;
        }
        let key = || self.key.to_vec();
        let mut expect = match named {
            Some(id) => vec![Expect::Names(key(), id)],
            None => vec![Expect::Absent(key()), Expect::Free(key())],
        };
        expect.extend(length.filter(|_| named.is_some()).map(|length| Expect::Length(key(), length)));
        let (want, extents) = (self.want(), self.extents.clone());
        let edit = Edit::Write { key: key(), object: self.object, want, mtime, extents };
        Ok(self.writer.catalog.commit(Change { expect, edits: vec![edit] })?)
    }

    /// Writes at most a block: one extent, or more if its replicas do not fit in one place.
    pub(crate) fn write_block(&mut self, mut raw: &[u8]) -> Result<()> {
        let mut since = Instant::now();
        self.room.free_much_garbage()?;
        while !raw.is_empty() {
            let plan = self.placer.plan_extent(self.offset, raw);
            if plan.replicas.is_empty() {
                self.placer.check_possible()?;
                self.room.make_room(raw.len(), self.placer.tiers(), since)?;
            } else {
                let part = &raw[..plan.length];
                let extent = self.new_extent(part)?;
                // Without a first replica, its target is not used for a while, and the bytes are planned again.
                if !self.write_extent(part, extent, plan.replicas)? {
                    continue;
                }
                self.is_slow |= plan.is_slow;
                raw = &raw[plan.length..];
                since = Instant::now();
            }
        }
        Ok(())
    }

    fn new_extent(&self, raw: &[u8]) -> Result<Extent> {
        let write = self.writer.catalog.next_id()?;
        let length = raw.len() as u32;
        let (offset, replicas) = (self.offset, Default::default());
        Ok(Extent { offset, length, skip: 0, raw_len: length, write, replicas, source: None })
    }

    /// Writes the first replica of an extent, and adds the extent to the object. The other replicas become pending. If fewer are planned than
    /// the extent should have, plans more. Returns false if the first replica could not be written.
    fn write_extent(&mut self, raw: &[u8], mut extent: Extent, mut plans: ReplicaPlans) -> Result<bool> {
        let mut owed: Vec<TargetId> = Vec::new();
        let want = self.placer.count(plans.len());
        let once = (want > 1).then(OnceEncoded::default);
        loop {
            self.plain.prefer_held_targets(self.writer, self.key, &mut plans);
            self.write_replicas(&plans, raw, once.as_ref(), &mut extent, &mut owed)?;
            if extent.replicas.is_empty() {
                return Ok(false);
            }
            let taken: Vec<TargetId> = extent.replicas.iter().map(|r| r.target).chain(owed.iter().copied()).collect();
            let missing = want.saturating_sub(taken.len());
            if missing == 0 {
                break;
            }
            plans = self.placer.plan_more(&extent, missing, &taken);
            if plans.is_empty() {
                // A replica that no target takes now becomes pending on one that may take it later.
                let all = 0..self.writer.planning.tiers.tiers.len();
                owed.extend(self.placer.for_later(all, missing, &taken));
                break;
            }
        }
        // If all persistent targets are full, the extent is in memory alone, and a persistent replica becomes pending.
        let taken: Vec<TargetId> = extent.replicas.iter().map(|r| r.target).chain(owed.iter().copied()).collect();
        owed.extend(self.placer.lasting_for_later(&taken));
        self.least_replicas = self.least_replicas.min(extent.replicas.len() + owed.len());
        self.plain.owe(self.writer, self.key, &extent, &mut owed);
        self.stored += extent.replicas.iter().map(|r| u64::from(r.stored)).sum::<u64>();
        self.note_extent(&extent, &owed);
        if !owed.is_empty() {
            let target = TargetId::MAX;
            let task = Task { object: self.object, frame_offset: extent.offset, write: extent.write, target };
            self.writer.kept.keep(&task, owed.len(), raw, once);
        }
        self.offset += raw.len() as u64;
        self.unstaged_bytes += raw.len() as u64;
        self.extents.push(NewExtent { extent, owed });
        Ok(true)
    }

    /// Appends the first replica, and others that are fast to append. The rest become pending. Stops if a target fails: it
    /// is then not used for a while, and the rest must be planned again.
    fn write_replicas(
        &self,
        plans: &[ReplicaPlan],
        raw: &[u8],
        once: Option<&OnceEncoded>,
        extent: &mut Extent,
        owed: &mut Vec<TargetId>,
    ) -> Result<()> {
        for ReplicaPlan { target, encoding } in plans {
            let device = self.writer.planning.tiers.device(*target)?;
            let plain = self.writer.planning.rules.now().is_plain(device.tier, self.key);
            // A budget is spent on the other replicas once the size of the first is known.
            let later = raw.len() > INLINE_BYTES || !device.is_local || plain || self.placer.has_budget();
            if !extent.replicas.is_empty() && later {
                owed.push(*target);
                continue;
            }
            let replica = extent.replicas.len() as u8;
            let identity = Identity { object: self.object, write: extent.write, offset: extent.offset, replica };
            let encoding = self.placer.pinned_or(*encoding);
            match device.append_one_of_several(identity, encoding, raw, once) {
                Ok(replica) => {
                    self.placer.note_appended(device, extent.offset, encoding, raw.len());
                    extent.replicas.push(replica);
                }
                Err(e) => {
                    device.failed_to_write(&e);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of replicas that each extent should have.
    pub(crate) fn want(&self) -> u8 {
        self.placer.count(self.least_replicas) as u8
    }

    /// Notes an extent's replicas, made and pending, for the receipt.
    fn note_extent(&mut self, extent: &Extent, owed: &[TargetId]) {
        self.range = match self.have {
            None => extent.offset..extent.end(),
            Some(_) => self.range.start.min(extent.offset)..self.range.end.max(extent.end()),
        };
        let have = extent.replicas.len() as u8;
        self.lacking += Lacking::of(extent.replicas.len() + owed.len(), self.want().into());
        self.have = Some(self.have.map_or(have, |least| least.min(have)));
        self.owed += owed.len() as u64;
        for &target in owed {
            match self.owed_to.iter_mut().find(|(known, _)| *known == target) {
                Some((_, replicas)) => *replicas += 1,
                None => self.owed_to.push((target, 1)),
            }
        }
    }

    /// Frees the frames that were written and will not become visible.
    pub(crate) fn abandon(&mut self) {
        // They are staged under a new number, because the object may exist, and keeps its own extents.
        let Ok(object) = self.writer.catalog.next_id() else { return };
        let extents = std::mem::take(&mut self.extents);
        let stage = Edit::Stage { object, key: self.key.to_vec(), extents };
        let mut edits = vec![stage, Edit::Unstage { object }];
        if self.staged {
            edits.push(Edit::Unstage { object: self.object });
        }
        // If this fails, no commit names the frames, and the sweep of a later opening frees them.
        let _ = self.writer.catalog.commit(Change { expect: Vec::new(), edits });
    }
}
