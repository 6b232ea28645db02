//! [`ServerFacts`]: what all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use rustix_futex_sync::RwLock;
use terrace_kit::Traffic;

use crate::channels::Channels;
use crate::client_memory::ClientMemory;
use crate::clock::Moment;
use crate::encoding_names::EncodingLimits;
use crate::limits::{Dialect, RedisLimits};
use crate::password::Password;
use crate::planned_flush::PlannedFlush;
use crate::request::MAX_WORD_BYTES;

/// The number of databases, as Redis has by default.
pub const DATABASE_COUNT: usize = 16;
/// The version of Redis that clients are told: they choose by it which commands they use.
pub const REDIS_VERSION: &str = "7.0.15";

/// The facts about a server, and its counters. Each counter has a meaning by itself, so relaxed order suffices.
pub struct ServerFacts {
    /// The time at which it began.
    pub begun: Moment,
    /// The protocol.
    pub dialect: Dialect,
    /// The limits on connections.
    pub limits: RedisLimits,
    /// The bytes that are held for clients.
    pub memory: Arc<ClientMemory>,
    /// Clients that were disconnected because too many bytes were held.
    pub evicted: AtomicU64,
    /// The TCP port; 0 for a Unix socket.
    pub port: u16,
    /// The counts of requests, bytes and connections.
    pub traffic: Traffic,
    /// Connections that wait for a value.
    pub waiting: AtomicUsize,
    /// Commands that were carried out.
    pub commands: AtomicU64,
    /// Commits that were repeated because others changed the same values.
    pub repeated: AtomicU64,
    /// Items that clients of memcached asked for and got.
    pub hits: AtomicU64,
    /// Items that they asked for and that were not there.
    pub misses: AtomicU64,
    /// When all items are to be removed.
    pub flush: PlannedFlush,
    /// When everything was last synced by `SAVE`, in milliseconds since 1970.
    pub saved: AtomicI64,
    /// The channels that clients listen to.
    pub channels: Channels,
    /// The password that clients must give.
    pub password: Option<Password>,
    // Held for a look or a change only.
    encoding_limits: RwLock<EncodingLimits>,
}

impl ServerFacts {
    /// The facts of a new server.
    pub fn new(
        dialect: Dialect,
        limits: RedisLimits,
        port: u16,
        password: Option<Password>,
        channels: Channels,
    ) -> ServerFacts {
        let begun = Moment::now();
        ServerFacts {
            begun,
            dialect,
            limits,
            memory: Arc::new(ClientMemory::new(limits.memory)),
            evicted: AtomicU64::new(0),
            port,
            traffic: Traffic::default(),
            waiting: AtomicUsize::new(0),
            commands: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            flush: PlannedFlush::default(),
            saved: AtomicI64::new(begun.millis()),
            channels,
            password,
            encoding_limits: RwLock::new(EncodingLimits::default()),
        }
    }

    /// The longest value that clients of memcached may write.
    pub fn max_item_bytes(&self) -> usize {
        match self.dialect {
            Dialect::Redis => MAX_WORD_BYTES,
            Dialect::Memcached { max_item_bytes } => max_item_bytes,
        }
    }

    /// The number of databases.
    pub fn databases(&self) -> usize {
        DATABASE_COUNT
    }

    /// The lengths that decide the answers of `OBJECT ENCODING`.
    pub fn encoding_limits(&self) -> EncodingLimits {
        *self.encoding_limits.read()
    }

    /// The settings that `CONFIG GET` shows.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let limits = self.encoding_limits();
        let fixed = [
            ("appendonly", "yes".to_owned()),
            ("databases", DATABASE_COUNT.to_string()),
            ("maxclients", self.limits.connections.to_string()),
            ("maxmemory", "0".to_owned()),
            ("maxmemory-clients", self.memory.limit().to_string()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("port", self.port.to_string()),
            ("proto-max-bulk-len", MAX_WORD_BYTES.to_string()),
            ("save", String::new()),
            ("timeout", self.limits.idle.map_or(0, |idle| idle.as_secs()).to_string()),
        ];
        let shown =
            EncodingSetting::ALL_SETTINGS.iter().map(|(name, setting)| (*name, setting.of(&limits).to_string()));
        fixed.into_iter().chain(shown).collect()
    }

    /// Changes a setting that `OBJECT ENCODING` goes by. Returns false if there is no such setting.
    pub fn set(&self, name: &str, value: i64) -> bool {
        let Some((_, setting)) = EncodingSetting::ALL_SETTINGS.iter().find(|(known, _)| *known == name) else {
            return false;
        };
        *setting.of_mut(&mut self.encoding_limits.write()) = value;
        true
    }

    /// Adds one to a counter.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A setting of [`EncodingLimits`].
#[derive(Clone, Copy)]
enum EncodingSetting {
    HashEntries,
    HashValue,
    ListSize,
    ListDepth,
    SetEntries,
    ZsetEntries,
    ZsetValue,
}

impl EncodingSetting {
    /// All names. Some settings have an older name, too.
    const ALL_SETTINGS: &'static [(&'static str, EncodingSetting)] = &[
        ("hash-max-listpack-entries", EncodingSetting::HashEntries),
        ("hash-max-listpack-value", EncodingSetting::HashValue),
        ("hash-max-ziplist-entries", EncodingSetting::HashEntries),
        ("hash-max-ziplist-value", EncodingSetting::HashValue),
        ("list-compress-depth", EncodingSetting::ListDepth),
        ("list-max-listpack-size", EncodingSetting::ListSize),
        ("list-max-ziplist-size", EncodingSetting::ListSize),
        ("set-max-intset-entries", EncodingSetting::SetEntries),
        ("zset-max-listpack-entries", EncodingSetting::ZsetEntries),
        ("zset-max-listpack-value", EncodingSetting::ZsetValue),
        ("zset-max-ziplist-entries", EncodingSetting::ZsetEntries),
        ("zset-max-ziplist-value", EncodingSetting::ZsetValue),
    ];

    fn of(self, limits: &EncodingLimits) -> i64 {
        *self.of_mut(&mut { *limits })
    }

    fn of_mut(self, limits: &mut EncodingLimits) -> &mut i64 {
        match self {
            EncodingSetting::HashEntries => &mut limits.hash_entries,
            EncodingSetting::HashValue => &mut limits.hash_value,
            EncodingSetting::ListSize => &mut limits.list_size,
            EncodingSetting::ListDepth => &mut limits.list_depth,
            EncodingSetting::SetEntries => &mut limits.set_entries,
            EncodingSetting::ZsetEntries => &mut limits.zset_entries,
            EncodingSetting::ZsetValue => &mut limits.zset_value,
        }
    }
}
