//! The protocol of a server, and the limits on its connections.

use std::fmt;
use std::time::Duration;

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// RESP2 and RESP3.
    #[default]
    Redis,
    /// The text protocol of memcached.
    Memcached {
        /// Longer values are refused.
        max_item_bytes: usize,
    },
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Redis => "Redis",
            Dialect::Memcached { .. } => "memcached",
        })
    }
}

impl Dialect {
    /// The name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Dialect::Redis => "redis",
            Dialect::Memcached { .. } => "memcached",
        }
    }

    /// Tells a client that there are too many.
    pub fn refusal(self) -> &'static [u8] {
        match self {
            Dialect::Redis => b"-ERR max number of clients reached\r\n",
            Dialect::Memcached { .. } => b"ERROR Too many open connections\r\n",
        }
    }
}

/// The limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisLimits {
    /// The largest number of connections. Others are turned away.
    pub connections: usize,
    /// The most bytes that are held for all clients: of requests that have not arrived whole, of transactions, and of replies that were not
    /// received. Beyond it, the clients that hold the most are disconnected.
    pub memory: usize,
    /// A connection that sends nothing for this long is closed; `None` disables the limit.
    pub idle: Option<Duration>,
}

impl Default for RedisLimits {
    fn default() -> RedisLimits {
        RedisLimits { connections: 10_000, memory: 2 << 30, idle: None }
    }
}
