//! The commands that show where objects are stored, and the store's status.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Serialize;
use serde_json::json;
use terrace::report::{Replanning, ReplicaState, Status, TierState};
use terrace::{HotRange, Kind, Object, OriginStatus, Store, key};

use crate::flush;
use crate::output::{Show, complain, count, name, on_node, print, size, table, time};

const KEYS_PER_PAGE: usize = 1024;
/// The length of the longest bar of a heat map.
const MAX_HEAT_BAR_LENGTH: u8 = 12;

/// Visits every object at or below a prefix. Skips the store's own objects unless the prefix selects them.
pub fn each(store: &Store, prefix: &[u8], mut visit: impl FnMut(&[u8], &Object) -> Result<()>) -> Result<()> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = store.list(prefix, after.as_deref(), KEYS_PER_PAGE)?;
        let is_own = |key: &[u8]| key::below(key, key::RESERVED_FOLDER);
        for (key, object) in page.iter().filter(|(key, _)| is_own(prefix) || !is_own(key)) {
            visit(key, object)?;
        }
        match page.into_iter().next_back() {
            Some((last, _)) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// Checks that an object is stored at or below a prefix, so that a mistyped one is reported.
pub fn check_has_objects(store: &Store, prefix: &[u8]) -> Result<()> {
    if !prefix.is_empty() && store.list(prefix, None, 1)?.is_empty() {
        bail!(nothing_below(prefix));
    }
    Ok(())
}

fn nothing_below(prefix: &[u8]) -> String {
    format!("nothing is stored at or below {:?}; `terrace ls` lists what is", key::show(prefix))
}

/// An object with its key; a key that is not UTF-8 is also given as bytes.
#[derive(Serialize)]
struct Named<T> {
    #[serde(flatten)]
    value: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
}

impl<T> Named<T> {
    fn new(key: &[u8], value: T) -> Named<T> {
        let key_base64 = std::str::from_utf8(key).is_err().then(|| BASE64_STANDARD.encode(key));
        Named { value, key_base64 }
    }
}

pub fn ls(store: &Store, prefix: Option<&OsStr>, long: bool, show: Show) -> Result<bool> {
    let (mut entries, mut is_any) = (Vec::new(), false);
    let prefix = prefix.unwrap_or_default().as_bytes();
    each(store, prefix, |key, object| {
        is_any = true;
        if show.json {
            let entry = json!({"key": key::show(key), "length": object.length, "mtime": object.attributes.mtime});
            entries.push(Named::new(key, entry));
            return Ok(());
        }
        if !long {
            return show.line(&name(key));
        }
        let kind = match object.attributes.kind {
            Kind::File => '-',
            Kind::Directory => 'd',
            Kind::Symlink => 'l',
        };
        let Object { length, want, attributes, .. } = object;
        show.line(&format!(
            "{kind}{:04o} {length:>12} {} {want} {}",
            attributes.mode & 0o7777,
            time(attributes.mtime),
            name(key)
        ))
    })?;
    if show.json {
        show.value(&entries)?;
    }
    if !is_any && !prefix.is_empty() {
        complain(&nothing_below(prefix));
    }
    Ok(is_any || prefix.is_empty())
}

pub fn locate(store: &Store, key: &OsStr, show: Show) -> Result<bool> {
    let location = store.locate(key.as_bytes())?;
    if show.json {
        show.value(&Named::new(key.as_bytes(), &location))?;
        return Ok(true);
    }
    let shown = name(key.as_bytes());
    show.line(&format!("{shown}: {} bytes, generation {}", location.length, location.generation))?;
    let mut rows = table(&["offset", "length", "tier", "encoding", "stored", "ratio", "where"]);
    for extent in &location.extents {
        for replica in &extent.replicas {
            let ratio = extent.length as f64 / replica.stored.max(1) as f64;
            let (encoding, stored, ratio) = match replica.state {
                ReplicaState::Present => (replica.encoding.clone(), replica.stored.to_string(), format!("{ratio:.2}")),
                ReplicaState::Owed => ("pending".into(), String::new(), String::new()),
            };
            let place = match (&replica.file, replica.position) {
                (Some(file), Some(position)) => format!("{}@{position}", file.display()),
                _ => replica.target.clone(),
            };
            let place = on_node(&place, replica.node.as_deref());
            rows.add_row([
                extent.offset.to_string(),
                extent.length.to_string(),
                replica.tier.clone(),
                encoding,
                stored,
                ratio,
                place,
            ]);
        }
    }
    show.line(&rows.to_string())?;
    Ok(true)
}

pub fn stat(store: &Store, key: &OsStr, show: Show) -> Result<bool> {
    let object = store.stat(key.as_bytes())?;
    let shown = name(key.as_bytes());
    let Object { length, generation, want, attributes, .. } = &object;
    let value = json!({
        "key": key::show(key.as_bytes()), "length": length, "generation": generation, "replicas": want, "attributes": attributes,
    });
    let words = format!(
        "{shown}: {length} bytes, generation {generation}, {} wanted\n{}, mode {:04o}, modified {} UTC",
        count((*want).into(), "replica"),
        format!("{:?}", attributes.kind).to_lowercase(),
        attributes.mode & 0o7777,
        time(attributes.mtime)
    );
    show.result(&Named::new(key.as_bytes(), value), &words)?;
    Ok(true)
}

/// Lists the hottest ranges, each with a bar for its heat.
pub fn hot(store: &Store, prefix: Option<&OsStr>, limit: usize, show: Show) -> Result<bool> {
    let ranges = store.hot(prefix.unwrap_or_default().as_bytes(), limit)?;
    if show.json {
        show.value(&ranges)?;
        return Ok(true);
    }
    if ranges.is_empty() {
        show.line("nothing was read in the last hours")?;
        return Ok(true);
    }
    let hottest = ranges[0].score;
    let mut rows = table(&["reads", "", "tier", "offset", "length", "key"]);
    for HotRange { key, offset, length, score, tier } in &ranges {
        // Scale logarithmically: each doubling adds a step, so that warm ranges differ visibly from cold ones.
        let steps = (f64::from(MAX_HEAT_BAR_LENGTH) + (score / hottest).log2())
            .round()
            .clamp(1.0, MAX_HEAT_BAR_LENGTH.into()) as usize;
        rows.add_row([
            format!("{score:.2}"),
            "\u{2588}".repeat(steps),
            tier.clone(),
            offset.to_string(),
            size(*length),
            name(key.as_bytes()),
        ]);
    }
    show.line(&rows.to_string())?;
    Ok(true)
}

pub fn status(store: &Store, show: Show) -> Result<bool> {
    // This reads each of their objects, which is too much for each update of `top`.
    let origins = if store.config().origins.is_empty() { Vec::new() } else { store.origins()? };
    show_status(store, origins, show)
}

fn show_status(store: &Store, origins: Vec<OriginStatus>, show: Show) -> Result<bool> {
    let (status, streams) = (store.status()?, flush::streams(store)?);
    let mut words = format!("{}{}", glance(&status), flush::glance(&streams));
    for origin in &origins {
        let (cached, bytes) = (size(origin.cached), size(origin.bytes));
        words +=
            &format!("\norigin {}: {cached} of {bytes} in {} stored", origin.prefix, count(origin.files, "known file"));
    }
    #[derive(Serialize)]
    struct All {
        #[serde(flatten)]
        status: Status,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        streams: Vec<flush::Shown>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        origins: Vec<OriginStatus>,
    }
    show.result(&All { status, streams, origins }, &words)?;
    Ok(true)
}

/// Shows the store's status repeatedly: in place on a terminal, otherwise once.
pub fn top(store: &Store, interval: f64, times: Option<u64>, show: Show) -> Result<bool> {
    let interval = Duration::try_from_secs_f64(interval)
        .map_err(|_| anyhow!("--interval {interval}: write a number of seconds such as 0.5"))?;
    let terminal = std::io::stdout().is_terminal();
    let times = times.or((!terminal).then_some(1));
    for round in 0.. {
        if times == Some(round) {
            break;
        }
        if round > 0 {
            std::thread::sleep(interval);
        }
        if terminal {
            print(b"\x1b[H\x1b[2J\n")?;
        }
        show_status(store, Vec::new(), show)?;
    }
    Ok(true)
}

fn glance(status: &Status) -> String {
    let mut rows = table(&["tier", "used", "capacity", "queue", "state"]);
    for tier in &status.tiers {
        let capacity = if tier.capacity == u64::MAX { "unlimited".into() } else { size(tier.capacity) };
        rows.add_row([
            tier.name.clone(),
            size(tier.used),
            capacity,
            tier.queue.to_string(),
            format!("{:?}", tier.state).to_lowercase(),
        ]);
    }
    let replanning = match &status.replanning {
        None if status.unplanned.objects > 0 => {
            format!("; {} to be planned again", count(status.unplanned.objects, "object"))
        }
        None => String::new(),
        Some(Replanning { after: None, .. }) => "; the rules have changed: objects will be replanned".into(),
        Some(Replanning { after: Some(key), .. }) => {
            format!("; the rules have changed: replanned up to {}", name(key.as_bytes()))
        }
    };
    let read_only = status.tiers.iter().filter(|tier| tier.state == TierState::ReadOnly);
    let read_only: String = read_only
        .map(|tier| format!("\nthe file system of tier {} is read-only: make it writable again", tier.name))
        .collect();
    format!(
        "{}, {}{replanning}\n{rows}{read_only}",
        count(status.objects, "object"),
        count(status.owed, "pending replica")
    )
}
