//! The reply to `stats`: the names that memcached uses, as far as this server has such things.

use std::sync::atomic::Ordering;

use crate::clock::Moment;
use crate::resp::Resp;
use crate::server_facts::ServerFacts;

/// The reply to `stats`.
pub fn statistics(facts: &ServerFacts, now: Moment) -> Resp {
    let traffic = &facts.traffic;
    let requests = |kinds: &[&'static str]| kinds.iter().map(|kind| traffic.requests(kind)).sum();
    let seconds = |moment: Moment| moment.millis() / 1000;
    let numbers = [
        ("pid", u64::from(std::process::id())),
        ("uptime", (seconds(now) - seconds(facts.begun)).unsigned_abs()),
        ("time", seconds(now).unsigned_abs()),
        ("pointer_size", u64::from(usize::BITS)),
        ("max_connections", facts.limits.connections as u64),
        ("curr_connections", traffic.open_connections() as u64),
        ("total_connections", traffic.accepted.get()),
        ("rejected_connections", traffic.refused.get()),
        ("cmd_get", requests(&["get", "gets", "gat"])),
        ("cmd_set", requests(&["set", "add", "replace", "append", "prepend", "cas"])),
        ("cmd_touch", requests(&["touch"])),
        ("cmd_flush", requests(&["flush_all"])),
        ("bytes_read", traffic.received.get()),
        ("bytes_written", traffic.sent.get()),
        // Relaxed: mere counts.
        ("get_hits", facts.hits.load(Ordering::Relaxed)),
        ("get_misses", facts.misses.load(Ordering::Relaxed)),
        ("item_size_max", facts.max_item_bytes() as u64),
    ];
    let mut reply = String::new();
    let mut add = |name: &str, value: &str| reply += &format!("STAT {name} {value}\r\n");
    add("version", super::MEMCACHED_VERSION);
    add("terrace_version", env!("CARGO_PKG_VERSION"));
    numbers.iter().for_each(|(name, number)| add(name, &number.to_string()));
    Resp::Plain((reply + "END\r\n").into_bytes())
}
