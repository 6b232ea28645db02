//! [`MemcachedCommand`]: what a client asks for.

use crate::client_memory::bytes_of;

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemcachedCommand {
    /// The thing to do.
    pub deed: ItemDeed,
    /// Whether the client wants no reply.
    pub is_silent: bool,
}

/// The kinds of things to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemDeed {
    /// Items are read; `expiry` is their new time to live, if they get one.
    Get {
        /// The names of the items.
        keys: Vec<Vec<u8>>,
        /// Whether the reply has the numbers that [`StoreWay::IfUnchanged`] compares.
        with_unique: bool,
        /// The new time to live.
        expiry: Option<i64>,
    },
    /// An item is written.
    Store {
        /// The condition, and where the value goes.
        way: StoreWay,
        /// The name.
        key: Vec<u8>,
        /// A number that clients keep with the item.
        flags: u32,
        /// The time to live.
        expiry: i64,
        /// The value.
        bytes: Vec<u8>,
    },
    /// The value is longer than it may be, and was not kept.
    StoreTooLong {
        /// Whether the old value goes, because it would otherwise be taken for the new one.
        removes_old: bool,
        /// The name.
        key: Vec<u8>,
    },
    /// A number grows or shrinks.
    Count {
        /// The name of the item that holds it.
        key: Vec<u8>,
        /// By how much.
        delta: u64,
        /// Whether it shrinks.
        is_decrement: bool,
    },
    /// An item gets a new time to live.
    Touch {
        /// The name.
        key: Vec<u8>,
        /// The time to live.
        expiry: i64,
    },
    /// An item is removed.
    Delete {
        /// The name.
        key: Vec<u8>,
    },
    /// All items are removed, after some seconds.
    Flush {
        /// The seconds.
        delay: u64,
    },
    /// The server tells the version that it resembles.
    Version,
    /// The server describes itself.
    Stats,
    /// The connection ends.
    Quit,
    /// This line is the reply.
    Say(&'static str),
}

/// When an item is written, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWay {
    /// Always.
    Set,
    /// If there is none of this name.
    Add,
    /// If there is one.
    Replace,
    /// If there is one, behind its bytes.
    Append,
    /// If there is one, before its bytes.
    Prepend,
    /// If its last change has this number.
    IfUnchanged(u64),
}

impl StoreWay {
    fn name(self) -> &'static str {
        match self {
            StoreWay::Set => "set",
            StoreWay::Add => "add",
            StoreWay::Replace => "replace",
            StoreWay::Append => "append",
            StoreWay::Prepend => "prepend",
            StoreWay::IfUnchanged(_) => "cas",
        }
    }
}

impl MemcachedCommand {
    /// The memory that its keys and its value take.
    pub fn held_bytes(&self) -> usize {
        match &self.deed {
            ItemDeed::Get { keys, .. } => bytes_of(keys),
            ItemDeed::Store { key, bytes, .. } => key.capacity() + bytes.capacity(),
            _ => 0,
        }
    }

    /// The word that it begins with, for the metrics.
    pub fn kind(&self) -> &'static str {
        match &self.deed {
            ItemDeed::Get { with_unique: false, expiry: None, .. } => "get",
            ItemDeed::Get { with_unique: true, expiry: None, .. } => "gets",
            ItemDeed::Get { .. } => "gat",
            ItemDeed::Store { way, .. } => way.name(),
            ItemDeed::StoreTooLong { .. } => "too_long",
            ItemDeed::Count { is_decrement: false, .. } => "incr",
            ItemDeed::Count { is_decrement: true, .. } => "decr",
            ItemDeed::Touch { .. } => "touch",
            ItemDeed::Delete { .. } => "delete",
            ItemDeed::Flush { .. } => "flush_all",
            ItemDeed::Version => "version",
            ItemDeed::Stats => "stats",
            ItemDeed::Quit => "quit",
            ItemDeed::Say(_) => "session",
        }
    }

    /// Whether it may be carried out only when the changes before it have reached the store, which numbers them.
    pub fn needs_unique(&self) -> bool {
        matches!(
            self.deed,
            ItemDeed::Get { with_unique: true, .. } | ItemDeed::Store { way: StoreWay::IfUnchanged(_), .. }
        )
    }

    /// Whether its changes depend on what the store has.
    pub fn depends(&self) -> bool {
        !matches!(self.deed, ItemDeed::Get { expiry: None, .. } | ItemDeed::Store { way: StoreWay::Set, .. })
    }

    /// Takes the change out of a command that changes when items expire, and then reads them with their numbers: the change gives
    /// them new numbers.
    pub fn take_touches(&mut self) -> Vec<MemcachedCommand> {
        match &mut self.deed {
            ItemDeed::Get { keys, with_unique: true, expiry } => {
                let touch = |expiry: i64| {
                    let touch = |key: &Vec<u8>| ItemDeed::Touch { key: key.clone(), expiry };
                    keys.iter().map(touch).map(|deed| MemcachedCommand { deed, is_silent: true }).collect()
                };
                expiry.take().map(touch).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}
