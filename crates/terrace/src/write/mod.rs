//! Writing: bytes become extents, extents become frames, frames become visible by one commit.

mod append;
mod batch;
mod plain;

use std::io::Read;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use terrace_codec::Element;
use terrace_plan::policy::{Asked, Budget, Weights};

pub(crate) use append::{append_to, with_scratch};
pub use batch::Batch;

use crate::catalog::{Attributes, Change, Edit, Expect, Extent, NewExtent, TargetId, Task};
use crate::config::Ack;
use crate::frame::Identity;
use crate::place::{Placed, Placer, Places, Policy, policy};
use crate::store::{Inner, Store};
use crate::{Error, Result, key};
use plain::WholeOn;

/// Extents this short get all their quick replicas at once, on the caller's thread.
const INLINE_BYTES: usize = 64 << 10;

/// How an object is to be written; what is left open comes from the store's rules and configuration.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// How many replicas.
    pub replicas: Option<u8>,
    /// When the call may return.
    pub ack: Option<Ack>,
    /// The type of the bytes' elements, where it is known.
    pub element: Option<Element>,
    /// What matters for this object; where two requirements conflict, the first stands.
    pub requirements: Vec<Asked>,
    /// What matters when replicas are encoded; wins over requirements.
    pub weights: Option<Weights>,
    /// The most bytes stored for each byte given, over all replicas.
    pub budget: Option<Budget>,
    /// The object's attributes; none: those of a file that was modified just now.
    pub attributes: Option<Attributes>,
    /// Write only if the key names nothing yet.
    pub create_new: bool,
}

impl PutOptions {
    /// An operation's options over its application's: its requirements come first, and what the application asks for by
    /// number only holds where the operation asks for nothing at all.
    ///
    /// ```
    /// use terrace::PutOptions;
    ///
    /// let application = PutOptions { replicas: Some(3), ..PutOptions::default() };
    /// assert_eq!(PutOptions::default().over(&application).replicas, Some(3));
    /// let dense = PutOptions { requirements: vec!["min_storage".parse()?], ..PutOptions::default() };
    /// assert_eq!(dense.over(&application).replicas, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(self, application: &PutOptions) -> PutOptions {
        let silent = self.requirements.is_empty();
        let usual = if silent { application.clone() } else { PutOptions::default() };
        PutOptions {
            replicas: self.replicas.or(usual.replicas),
            ack: self.ack.or(usual.ack),
            weights: self.weights.or(usual.weights),
            budget: self.budget.or(usual.budget),
            element: self.element.or(application.element),
            requirements: self.requirements.into_iter().chain(application.requirements.iter().copied()).collect(),
            attributes: self.attributes,
            create_new: self.create_new,
        }
    }

    /// Whether it says how replicas are to be encoded.
    fn says_how(&self) -> bool {
        !self.requirements.is_empty() || self.weights.is_some() || self.budget.is_some()
    }
}

/// Replicas that are still to be made on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedTo {
    /// The tier's name.
    pub tier: String,
    /// The target's path or name.
    pub target: String,
    /// How many replicas of extents.
    pub replicas: u64,
}

/// What a write has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The key written to.
    pub key: Vec<u8>,
    /// The object's number.
    pub object: u64,
    /// The commit that made the write visible.
    pub generation: u64,
    /// Replicas that each extent is to have here.
    pub want: u8,
    /// Replicas that were asked for; more than `want` where there are too few failure domains.
    pub asked: u8,
    /// Replicas that each extent has at least.
    pub have: u8,
    /// Whether all of it survives a loss of power, as was asked for by `durable`. Without that it will soon: the
    /// background sync makes it durable, but has not told yet.
    pub durable: bool,
    /// Replicas that were owed when the call returned.
    pub owed: u64,
    /// Where these are to be.
    pub owed_to: Vec<OwedTo>,
    /// Bytes written, before encoding and replication.
    pub bytes: u64,
    /// Bytes of payload that the replicas made by the call itself take.
    pub stored: u64,
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64)
}

impl Store {
    /// Writes a whole object from `bytes`; what the key named before is replaced at once.
    pub fn put_bytes(&self, key: &[u8], bytes: &[u8], options: &PutOptions) -> Result<Receipt> {
        let block = self.inner.config.block();
        self.put_by(key, options, |writer| bytes.chunks(block).try_for_each(|block| writer.add(block)))
    }

    /// Writes a whole object, read to its end from `source`, in bounded memory. It becomes visible at once, whole
    /// or not at all; what the key named before is replaced.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where no tier took the bytes, [`Error::Conflict`] where another file's key is a path prefix
    /// of this one or this one of another's.
    pub fn put(&self, key: &[u8], mut source: impl Read, options: &PutOptions) -> Result<Receipt> {
        self.put_by(key, options, |writer| writer.fill(&mut source))
    }

    fn put_by(
        &self,
        key: &[u8],
        options: &PutOptions,
        write: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<Receipt> {
        key::check(key)?;
        let inner = &self.inner;
        let policy = policy(inner, key, options);
        let object = inner.catalog.next_id()?;
        let mut writer = Writer::new(inner, key, object, &policy, options.element);
        if let Err(e) = write(&mut writer) {
            writer.abandon();
            return Err(e);
        }
        let attributes = options.attributes.clone().unwrap_or_else(Attributes::now);
        let mut expect = vec![Expect::Free(key.to_vec())];
        if options.create_new {
            expect.push(Expect::Absent(key.to_vec()));
        }
        let length = writer.offset;
        let extents = writer.extents.clone();
        let (want, staged) = (writer.want(), writer.staged);
        let edit = Edit::Put { key: key.to_vec(), object, length, want, attributes, staged, extents };
        crate::fail::point("put:written");
        if writer.owed > 0 && options.says_how() {
            inner.mover.remember(object, policy.wanted);
        }
        let commit = match inner.catalog.commit(Change { expect, edits: vec![edit] }) {
            Ok(commit) => commit,
            Err(e) => {
                writer.abandon();
                return Err(e);
            }
        };
        crate::fail::point("put:committed");
        self.acknowledge(commit.sequence, &policy, &writer, length)
    }

    /// Writes `bytes` at `offset` of an object, which is made if the key names none. Nothing is read; other ranges of
    /// the object stay as they are, whoever writes them at the same time.
    pub fn write_at(&self, key: &[u8], offset: u64, bytes: &[u8], options: &PutOptions) -> Result<Receipt> {
        self.write_all_at(key, &[(offset, bytes)], options)
    }

    /// Writes several ranges of an object, each at its offset, as [`Store::write_at`] does one. All become visible by one commit; where
    /// they overlap, the later one stands.
    pub fn write_all_at(&self, key: &[u8], ranges: &[(u64, &[u8])], options: &PutOptions) -> Result<Receipt> {
        key::check(key)?;
        let policy = policy(&self.inner, key, options);
        loop {
            let named = self.inner.catalog.object(key)?.map(|object| object.id);
            match self.write_ranges(key, named, ranges, now(), &policy, options.element) {
                // Where it was replaced meanwhile, the bytes belong to the object that is there now.
                Err(Error::Conflict { .. }) if self.inner.catalog.object(key)?.map(|o| o.id) != named => {}
                done => return done,
            }
        }
    }

    /// Writes to the object of number `named`, or makes one; all ranges become visible by one commit.
    pub(crate) fn write_ranges(
        &self,
        key: &[u8],
        named: Option<u64>,
        ranges: &[(u64, &[u8])],
        mtime: i64,
        policy: &Policy,
        element: Option<Element>,
    ) -> Result<Receipt> {
        let inner = &self.inner;
        let object = named.map_or_else(|| inner.catalog.next_id(), Ok)?;
        let mut writer = Writer::new(inner, key, object, policy, element);
        writer.stays_plain(named.is_some())?;
        for (offset, bytes) in ranges {
            writer.offset = *offset;
            if let Err(e) = bytes.chunks(inner.config.block()).try_for_each(|block| writer.block(block)) {
                writer.abandon();
                return Err(e);
            }
        }
        let extents = writer.extents.clone();
        let expect = match named {
            Some(id) => vec![Expect::Names(key.to_vec(), id)],
            None => vec![Expect::Absent(key.to_vec()), Expect::Free(key.to_vec())],
        };
        let edit = Edit::Write { key: key.to_vec(), object, want: writer.want(), mtime, extents };
        match inner.catalog.commit(Change { expect, edits: vec![edit] }) {
            Ok(commit) => {
                ranges.iter().for_each(|(_, bytes)| inner.note_range(key, bytes.len()));
                let length = ranges.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                self.acknowledge(commit.sequence, policy, &writer, length)
            }
            Err(e) => {
                writer.abandon();
                Err(e)
            }
        }
    }

    /// Cuts an object to `length` bytes, or extends it with zeros.
    pub fn set_length(&self, key: &[u8], length: u64) -> Result<()> {
        key::check(key)?;
        let expect = vec![Expect::Exists(key.to_vec())];
        self.inner
            .catalog
            .commit(Change { expect, edits: vec![Edit::SetLength { key: key.to_vec(), length, mtime: now() }] })?;
        self.follow_cut();
        Ok(())
    }

    fn acknowledge(&self, generation: u64, policy: &Policy, writer: &Writer<'_>, bytes: u64) -> Result<Receipt> {
        let want = writer.want();
        let mut receipt = Receipt {
            key: writer.key.to_vec(),
            object: writer.object,
            generation,
            want,
            asked: policy.asked,
            have: writer.have.unwrap_or(want),
            durable: false,
            owed: writer.owed,
            owed_to: Vec::new(),
            bytes,
            stored: writer.stored,
        };
        for &(target, replicas) in &writer.owed_to {
            let device = self.inner.tiers.device(target)?;
            let tier = self.inner.tiers.tier(device).name.clone();
            receipt.owed_to.push(OwedTo { tier, target: device.path.display().to_string(), replicas });
        }
        let ack = policy.wanted.ack;
        self.start_mover(writer.owed > 0 && ack == Ack::Placed);
        if ack > Ack::Placed {
            self.wait(&mut receipt, ack)?;
        }
        Ok(receipt)
    }
}

/// Cuts a stream of bytes into extents and writes their first replicas.
pub(crate) struct Writer<'a> {
    inner: &'a Inner,
    key: &'a [u8],
    object: u64,
    placer: Placer<'a>,
    /// The most replicas that an extent was given.
    most: usize,
    pub(crate) offset: u64,
    pub(crate) extents: Vec<NewExtent>,
    staged: bool,
    unstaged_bytes: u64,
    owed: u64,
    owed_to: Vec<(TargetId, u64)>,
    plain: WholeOn,
    /// Replicas of the extent that has the fewest.
    have: Option<u8>,
    stored: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(inner: &'a Inner, key: &'a [u8], object: u64, policy: &Policy, element: Option<Element>) -> Self {
        Writer {
            inner,
            key,
            object,
            placer: Placer::new(inner, key, element, policy.wanted),
            most: 0,
            offset: 0,
            extents: Vec::new(),
            staged: false,
            unstaged_bytes: 0,
            owed: 0,
            owed_to: Vec::new(),
            plain: WholeOn::default(),
            have: None,
            stored: 0,
        }
    }

    /// Sees that an object which has plain files stays whole on those targets.
    pub(crate) fn stays_plain(&mut self, exists: bool) -> Result<()> {
        if exists && self.inner.rules.now().has_plain() {
            self.plain = WholeOn::new(self.inner.catalog.plain_targets(self.object)?);
        }
        Ok(())
    }

    /// Writes all of `source`.
    fn fill(&mut self, source: &mut impl Read) -> Result<()> {
        let length = self.inner.config.block();
        let mut block = Vec::with_capacity(length);
        loop {
            block.clear();
            let read = source.take(length as u64).read_to_end(&mut block);
            read.map_err(|e| Error::io(format!("reading the bytes of {:?}", key::show(self.key)))(e))?;
            if block.is_empty() {
                return Ok(());
            }
            self.add(&block)?;
        }
    }

    /// Writes one extent, and records what has gathered where that is much.
    fn add(&mut self, block: &[u8]) -> Result<()> {
        self.block(block)?;
        if self.unstaged_bytes >= self.inner.stage_bytes {
            let extents = std::mem::take(&mut self.extents);
            let stage = Edit::Stage { object: self.object, key: self.key.to_vec(), extents };
            self.inner.catalog.commit(stage.into())?;
            self.staged = true;
            self.unstaged_bytes = 0;
            crate::fail::point("put:staged");
        }
        Ok(())
    }

    /// Writes at most a block: one extent, or more where its replicas do not fit in one place.
    pub(crate) fn block(&mut self, mut raw: &[u8]) -> Result<()> {
        let mut since = Instant::now();
        while !raw.is_empty() {
            let placement = self.placer.place(self.offset, raw);
            if placement.replicas.is_empty() {
                self.inner.make_room(since)?;
            } else if self.extent(&raw[..placement.length], placement.replicas)? {
                raw = &raw[placement.length..];
                since = Instant::now();
            }
        }
        Ok(())
    }

    /// Writes one extent. False where its first replica could not be written: its target is set aside then.
    fn extent(&mut self, raw: &[u8], mut places: Places) -> Result<bool> {
        let write = self.inner.catalog.next_id()?;
        let length = raw.len() as u32;
        let mut extent =
            Extent { offset: self.offset, length, skip: 0, raw_len: length, write, replicas: Default::default() };
        let mut owed: Vec<TargetId> = Vec::new();
        let want = self.placer.count(places.len());
        loop {
            self.plain.settle(self.inner, self.key, &mut places);
            self.replicas(&places, raw, &mut extent, &mut owed)?;
            if extent.replicas.is_empty() {
                return Ok(false);
            }
            let taken: Vec<TargetId> = extent.replicas.iter().map(|r| r.target).chain(owed.iter().copied()).collect();
            let missing = want.saturating_sub(taken.len());
            if missing == 0 {
                break;
            }
            places = self.placer.place_more(raw.len(), missing, &taken);
            if places.is_empty() {
                // What no target takes now is owed to one, until it does.
                owed.extend(self.placer.for_later(missing, &taken));
                break;
            }
        }
        self.most = self.most.max(extent.replicas.len() + owed.len());
        self.plain.owe(self.inner, self.key, &extent, &mut owed);
        self.stored += extent.replicas.iter().map(|r| u64::from(r.stored)).sum::<u64>();
        self.note(extent.replicas.len() as u8, &owed);
        if !owed.is_empty() {
            let target = TargetId::MAX;
            let task = Task { object: self.object, frame_offset: extent.offset, write: extent.write, target };
            self.inner.mover.keep(&task, owed.len(), raw);
        }
        self.offset += raw.len() as u64;
        self.unstaged_bytes += raw.len() as u64;
        self.extents.push(NewExtent { extent, owed });
        Ok(true)
    }

    /// Appends the first replica, and others that are quick to append; owes the rest. Ends where a target fails: it is
    /// set aside then, and the rest is to be planned anew.
    fn replicas(&self, places: &[Placed], raw: &[u8], extent: &mut Extent, owed: &mut Vec<TargetId>) -> Result<()> {
        for Placed { target, encoding } in places {
            let device = self.inner.tiers.device(*target)?;
            let plain = self.inner.rules.now().is_plain(device.tier, self.key);
            // What a budget pays for beside the first is known when that is there.
            let later = raw.len() > INLINE_BYTES || !device.quick || plain || self.placer.has_budget();
            if !extent.replicas.is_empty() && later {
                owed.push(*target);
                continue;
            }
            let replica = extent.replicas.len() as u8;
            let identity = Identity { object: self.object, write: extent.write, offset: extent.offset, replica };
            match self.placer.append(device, identity, *encoding, raw) {
                Ok(replica) => extent.replicas.push(replica),
                Err(e) => {
                    device.failed(&e);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Replicas that each extent is to have here.
    fn want(&self) -> u8 {
        self.placer.count(self.most) as u8
    }

    /// Notes for the receipt what an extent has and owes.
    fn note(&mut self, have: u8, owed: &[TargetId]) {
        self.have = Some(self.have.map_or(have, |least| least.min(have)));
        self.owed += owed.len() as u64;
        for &target in owed {
            match self.owed_to.iter_mut().find(|(known, _)| *known == target) {
                Some((_, replicas)) => *replicas += 1,
                None => self.owed_to.push((target, 1)),
            }
        }
    }

    /// Gives back what was written and will not be visible. Where that fails the mover does it later.
    pub(crate) fn abandon(&mut self) {
        // Under a number of their own: the object may be there, and keeps what it has.
        let Ok(object) = self.inner.catalog.next_id() else { return };
        let extents = std::mem::take(&mut self.extents);
        let stage = Edit::Stage { object, key: self.key.to_vec(), extents };
        let mut edits = vec![stage, Edit::Unstage { object }];
        if self.staged {
            edits.push(Edit::Unstage { object: self.object });
        }
        let _ = self.inner.catalog.commit(Change { expect: Vec::new(), edits });
    }
}

/// The element type that a file's name tells.
pub fn element_of(name: &[u8]) -> Option<Element> {
    let extension = name.rsplit(|&b| b == b'.').next()?;
    Some(match extension {
        b"f32" => Element::F32,
        b"f64" => Element::F64,
        b"i32" => Element::I32,
        b"aos32" => Element::Record32,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::BLOCK;
    use std::io;

    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(self.0.len()).min(1000);
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn a_slow_pipe_still_gives_whole_blocks() {
        let bytes = vec![7; 2_500_000];
        let mut block = Vec::new();
        let mut pipe = Drip(&bytes);
        (&mut pipe).take(u64::from(BLOCK)).read_to_end(&mut block).expect("reads");
        assert_eq!(block.len(), BLOCK as usize);
    }
}
