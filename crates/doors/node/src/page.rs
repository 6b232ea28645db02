//! The page for people: one document without scripts and external files, which the browser reloads regularly.

use std::time::{Duration, UNIX_EPOCH};

use httpdate::fmt_http_date;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use terrace::config::Bytes;
use terrace::report::{Health, Status};

use crate::report::Report;

/// The page loads again after this many seconds.
const REFRESH_SECONDS: u32 = 5;
/// The last second of the year 9999, which is the last year that a date of HTTP has.
const MAX_SHOWN_SECONDS: u64 = 253_402_300_799;
/// The page's look. It holds no text of the store.
const PAGE_STYLE: &str = "body{font:16px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc}\
    .safe{color:#176b2c}.working{color:#1f4e9c}.warning{color:#8a5a00}.damaged{color:#a01515}meter{width:8rem}";

/// Writes the page of a report.
pub fn page(report: &Report) -> String {
    let Report { status, health, commits: (last, durable), dir } = report;
    let word = health.health;
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(REFRESH_SECONDS);
                title { "Terrace: " (word) }
                style { (PreEscaped(PAGE_STYLE)) }
            }
            body {
                h1 { "Terrace: " span id="health" class=(word) { (word) } }
                p { (dir) }
                (findings(health))
                p {
                    span id="objects" { (status.objects) } " objects, "
                    span id="owed" { (status.owed) } " pending replicas, "
                    (last) " commits, " (durable) " of them durable"
                }
                (tiers(status))
                (scrub(health))
                p { a href="/metrics" { "metrics" } }
            }
        }
    };
    document.into_string()
}

fn findings(health: &Health) -> Markup {
    html! {
        @if !health.findings.is_empty() {
            table id="findings" {
                @for finding in &health.findings {
                    tr {
                        td class=(finding.health) { (finding.code) }
                        td { (finding.message) }
                        td { (finding.advice) }
                    }
                }
            }
        }
    }
}

fn tiers(status: &Status) -> Markup {
    html! {
        table id="tiers" {
            tr { th { "tier" } th { "state" } th { "used" } th { "capacity" } th { "" } th { "pending" } }
            @for tier in &status.tiers {
                tr {
                    td { (tier.name) }
                    td { (format!("{:?}", tier.state).to_lowercase()) }
                    td { (size(tier.used)) }
                    @if tier.capacity == u64::MAX {
                        td { "unlimited" } td { "" }
                    } @else {
                        td { (size(tier.capacity)) }
                        td { meter min="0" max=(tier.capacity.max(1)) value=(tier.used) { "" } }
                    }
                    td { (tier.queue) }
                }
            }
        }
    }
}

fn scrub(health: &Health) -> Markup {
    html! {
        p id="scrub" {
            @match &health.last_scrub {
                None => { "No scrub of the whole store has ended yet." }
                Some(scrub) => {
                    "The last scrub of the whole store ended on "
                    (fmt_http_date(UNIX_EPOCH + Duration::from_secs(scrub.finished.min(MAX_SHOWN_SECONDS)))) ": "
                    (scrub.found.checked) " replicas checked, " (scrub.found.bad) " bad, "
                    (scrub.found.repaired) " repaired, " (scrub.found.lost) " extents lost."
                }
            }
        }
    }
}

/// A size for people, in the largest unit that leaves at least one.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1024 => return Bytes(bytes).to_string(),
        1024..0x10_0000 => (1u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        0x4000_0000..0x100_0000_0000 => (1 << 30, "GiB"),
        _ => (1 << 40, "TiB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit as f64)
}
