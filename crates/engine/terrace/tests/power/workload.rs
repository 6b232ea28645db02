//! The operations of a workload, on the store and on a slow, obvious one.

use std::collections::BTreeMap;
use std::path::Path;

use terrace::{Ack, PutOptions, Store};
use terrace_testkit::Random;

use crate::common;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Put,
    Write,
    Cut,
    Clear,
    Remove,
    Rename,
    Copy,
    /// An upload of two parts; something else may happen before it is completed.
    Upload,
    /// Puts an object that has expired already, and removes it.
    Expire,
    Sync,
    Evict,
    Compact,
    /// Closes the store and opens it again.
    Reopen,
}

/// All of them.
pub const ALL_KINDS: [Kind; 13] = [
    Kind::Put,
    Kind::Write,
    Kind::Cut,
    Kind::Clear,
    Kind::Remove,
    Kind::Rename,
    Kind::Copy,
    Kind::Upload,
    Kind::Expire,
    Kind::Sync,
    Kind::Evict,
    Kind::Compact,
    Kind::Reopen,
];

#[derive(Clone, Debug)]
pub struct Operation {
    pub kind: Kind,
    pub key: Vec<u8>,
    pub other: Vec<u8>,
    pub at: u64,
    pub bytes: Vec<u8>,
    pub durable: bool,
    /// When the object of a put is to be removed.
    pub expiry: Option<u64>,
    /// The bytes that a copy copies. None if there is no such object.
    pub copied: Option<Vec<u8>>,
    /// Whether it runs on targets that are full soon.
    pub crowded: bool,
}

pub fn operation(kind: Kind, random: &mut Random) -> Operation {
    let key = |random: &mut Random| vec![b'a' + random.below(2) as u8];
    let length = [0, 100, 5_000, 40_000, 90_000, 1_200_000][random.below(6) as usize];
    let (flat, start) = (random.below(2) == 0, random.below(250) as u32);
    let byte = |i: u32| if flat { (start + i / 97) as u8 } else { (i.wrapping_mul(i) >> 7) as u8 ^ start as u8 };
    Operation {
        kind,
        key: key(random),
        other: key(random),
        at: random.below(60_000),
        bytes: (0..length).map(byte).collect(),
        durable: random.below(4) == 0,
        expiry: [None, Some(u64::MAX - 1), Some(u64::MAX)][random.below(3) as usize],
        copied: None,
        crowded: false,
    }
}

/// Objects come and go where a few of them take all the room.
pub fn crowded_operation(random: &mut Random) -> Operation {
    let kinds = [Kind::Put, Kind::Put, Kind::Put, Kind::Put, Kind::Remove, Kind::Remove, Kind::Rename, Kind::Sync];
    let kinds = [kinds.as_slice(), &[Kind::Copy, Kind::Copy, Kind::Remove]].concat();
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    let key = |random: &mut Random| vec![b'a' + random.below(5) as u8];
    let (key, other) = (key(random), key(random));
    let bytes = vec![random.below(250) as u8; 40_000 + random.below(50_000) as usize];
    // Bytes that shrink would take no room.
    let bytes = bytes.iter().enumerate().map(|(at, byte)| ((at * at) >> 7) as u8 ^ byte).collect();
    Operation {
        kind,
        key,
        other,
        at: 0,
        bytes,
        durable: random.below(8) == 0,
        expiry: None,
        copied: None,
        crowded: true,
    }
}

impl Kind {
    /// Whether it may change what objects hold.
    pub fn changes(self) -> bool {
        !matches!(self, Kind::Sync | Kind::Evict | Kind::Compact | Kind::Reopen)
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Done,
    /// It is done; there was no room for what it waits for.
    Late,
    /// There was no room for it: nothing has changed.
    Refused,
}

pub fn run(opened: &mut Option<Store>, home: &Path, operation: &Operation) -> Outcome {
    if operation.kind == Kind::Reopen {
        drop(opened.take());
    }
    let store = opened.get_or_insert_with(|| Store::open(home).unwrap()).clone();
    let ack = if operation.durable { Ack::Durable } else { Ack::Placed };
    let options = PutOptions { ack: Some(ack), ..PutOptions::default() };
    let Operation { key, other, at, bytes, .. } = operation;
    let describe = |expiry| PutOptions { attributes: Some(common::described(bytes, expiry)), ..options.clone() };
    let done = match operation.kind {
        Kind::Put => store.put_bytes(key, bytes, &describe(operation.expiry)).map(|_| ()),
        Kind::Expire => {
            let put = store.put_bytes(key, bytes, &describe(Some(1)));
            put.and_then(|_| store.remove_expired(usize::MAX)).map(|_| ())
        }
        Kind::Write => store.write_at(key, *at, bytes, &options).map(|_| ()),
        Kind::Cut => store.set_length(key, *at),
        Kind::Clear => common::clear(&store, key, *at, bytes.len() as u64),
        Kind::Remove => store.remove(key),
        Kind::Rename => store.rename(key, other),
        Kind::Copy => {
            let copied = store.copy(key, other);
            if operation.durable { copied.and_then(|()| store.make_durable(other)) } else { copied }
        }
        Kind::Upload => {
            // No other clone keeps it open where it is opened again in between.
            drop(store);
            upload(opened, home, operation, &describe(operation.expiry))
        }
        Kind::Sync => store.sync(),
        Kind::Evict => store.evict(b"", "ram").map(|_| ()),
        Kind::Compact => store.compact(),
        Kind::Reopen => Ok(()),
    };
    match done {
        Ok(()) | Err(terrace::Error::NotFound { .. }) => Outcome::Done,
        Err(terrace::Error::StillOwed { .. }) => Outcome::Late,
        Err(terrace::Error::NoSpace { .. }) => Outcome::Refused,
        failed => failed.map(|()| Outcome::Done).map_err(|e| format!("{e}: {operation:?}")).unwrap(),
    }
}

fn upload(opened: &mut Option<Store>, home: &Path, operation: &Operation, options: &PutOptions) -> terrace::Result<()> {
    let Operation { key, at, bytes, .. } = operation;
    let (first, second) = bytes.split_at(bytes.len().min(*at as usize));
    let store = opened.get_or_insert_with(|| Store::open(home).unwrap());
    // Digests are given with the bytes; all else with the upload.
    let whole = options.attributes.clone().unwrap_or_default();
    let mut begun = whole.clone();
    begun.remove_digests();
    let options = PutOptions { attributes: None, ..options.clone() };
    let upload = store.begin_upload(key, &PutOptions { attributes: Some(begun), ..options.clone() }, None)?;
    let put = |store: &Store, number, bytes: &[u8]| {
        let digest = common::described(bytes, None);
        store.put_part(upload, number, bytes, &options, |attributes| attributes.take_digests(&digest))
    };
    put(store, 2, first)?;
    match at % 5 {
        0 => store.sync()?,
        1 => drop(store.evict(b"", "ram")?),
        2 => store.compact()?,
        3 => {
            drop(opened.take());
            *opened = Some(Store::open(home)?);
        }
        _ => {}
    }
    let store = opened.get_or_insert_with(|| Store::open(home).unwrap());
    let parts = [put(store, 1, first)?, put(store, 2, second)?];
    let parts = parts.map(|part| (part.number, part.object.etag()));
    store.complete_upload(upload, &parts, &options, |attributes| attributes.take_digests(&whole)).map(drop)
}

/// Whether it survives, once it has returned, whatever becomes of what came before.
pub fn is_durable(operation: &Operation) -> bool {
    match operation.kind {
        Kind::Put | Kind::Upload => operation.durable,
        // A write of no bytes waits for nothing.
        Kind::Write => operation.durable && !operation.bytes.is_empty(),
        Kind::Copy => operation.durable && operation.copied.is_some(),
        _ => false,
    }
}

impl Operation {
    /// Says what a copy copies, now that all before it has run. It has these bytes, whatever becomes of the object that it copies.
    pub fn note_copied(&mut self, model: &Model) {
        if self.kind == Kind::Copy && self.key != self.other {
            self.copied = model.get(&self.key).cloned();
        }
    }
}

/// The slow, obvious store.
pub fn apply(model: &mut Model, operation: &Operation) {
    let Operation { key, other, at, bytes, .. } = operation;
    match operation.kind {
        Kind::Put | Kind::Upload => {
            model.insert(key.clone(), bytes.clone());
        }
        Kind::Write => {
            let file = model.entry(key.clone()).or_default();
            if !bytes.is_empty() {
                let (start, end) = (*at as usize, *at as usize + bytes.len());
                file.resize(file.len().max(end), 0);
                file[start..end].copy_from_slice(bytes);
            }
        }
        Kind::Cut => {
            if let Some(file) = model.get_mut(key) {
                file.resize(*at as usize, 0);
            }
        }
        Kind::Clear => {
            if let Some(file) = model.get_mut(key) {
                common::clear_in(file, *at, bytes.len() as u64);
            }
        }
        Kind::Remove | Kind::Expire => {
            model.remove(key);
        }
        Kind::Rename => {
            if let Some(bytes) = model.remove(key) {
                model.insert(other.clone(), bytes);
            }
        }
        Kind::Copy => {
            if let Some(bytes) = &operation.copied {
                model.insert(other.clone(), bytes.clone());
            }
        }
        Kind::Sync | Kind::Evict | Kind::Compact | Kind::Reopen => {}
    }
}
