//! The limits on connections.

use std::time::Duration;

/// The limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisLimits {
    /// The largest number of connections. Others are turned away.
    pub connections: usize,
    /// A connection that sends nothing for this long is closed; `None` disables the limit.
    pub idle: Option<Duration>,
}

impl Default for RedisLimits {
    fn default() -> RedisLimits {
        RedisLimits { connections: 10_000, idle: None }
    }
}
