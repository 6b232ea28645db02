//! Looking: where things are and how they do.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Result, anyhow};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::json;
use terrace::report::{ReplicaState, Status};
use terrace::{Kind, Object, Store, key};

use crate::output::{Show, size, table};

const PAGE: usize = 1024;

/// Every object at or below a prefix.
pub fn each(store: &Store, prefix: &[u8], mut visit: impl FnMut(&[u8], &Object) -> Result<()>) -> Result<()> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = store.list(prefix, after.as_deref(), PAGE)?;
        for (key, object) in &page {
            visit(key, object)?;
        }
        match page.into_iter().next_back() {
            Some((last, _)) => after = Some(last),
            None => return Ok(()),
        }
    }
}

pub fn ls(store: &Store, prefix: Option<&str>, long: bool, show: Show) -> Result<bool> {
    let mut entries = Vec::new();
    each(store, prefix.unwrap_or_default().as_bytes(), |key, object| {
        let name = key::show(key);
        if show.json {
            let mut entry = json!({"key": name, "length": object.length, "mtime": object.attributes.mtime});
            if std::str::from_utf8(key).is_err() {
                entry["key_base64"] = BASE64_STANDARD.encode(key).into();
            }
            entries.push(entry);
        } else if long {
            let kind = match object.attributes.kind {
                Kind::File => '-',
                Kind::Directory => 'd',
                Kind::Symlink => 'l',
            };
            show.line(&format!("{kind}{:04o} {:>12} {name}", object.attributes.mode & 0o7777, object.length));
        } else {
            show.line(&name);
        }
        Ok(())
    })?;
    if show.json {
        show.value(&entries)?;
    }
    Ok(true)
}

pub fn locate(store: &Store, key: &str, show: Show) -> Result<bool> {
    let location = store.locate(key.as_bytes())?;
    if show.json {
        show.value(&location)?;
        return Ok(true);
    }
    show.line(&format!("{}: {} bytes, generation {}", location.key, location.length, location.generation));
    let mut rows = table(&["offset", "length", "tier", "encoding", "stored", "ratio", "where"]);
    for extent in &location.extents {
        for replica in &extent.replicas {
            let ratio = extent.length as f64 / replica.stored.max(1) as f64;
            let (encoding, stored, ratio) = match replica.state {
                ReplicaState::Present => (replica.encoding.clone(), replica.stored.to_string(), format!("{ratio:.2}")),
                ReplicaState::Owed => ("owed".into(), String::new(), String::new()),
            };
            let place = match (&replica.file, replica.position) {
                (Some(file), Some(position)) => format!("{}@{position}", file.display()),
                _ => replica.target.clone(),
            };
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
    show.line(&rows.to_string());
    Ok(true)
}

pub fn stat(store: &Store, key: &str, show: Show) -> Result<bool> {
    let object = store.stat(key.as_bytes())?;
    if show.json {
        show.value(&json!({
            "key": key, "length": object.length, "generation": object.generation, "replicas": object.want,
            "attributes": object.attributes,
        }))?;
    } else {
        let Object { length, generation, want, attributes, .. } = &object;
        show.line(&format!("{key}: {length} bytes, generation {generation}, {want} replicas wanted"));
        show.line(&format!("mode {:04o}, modified {} ns since 1970", attributes.mode & 0o7777, attributes.mtime));
    }
    Ok(true)
}

pub fn status(store: &Store, show: Show) -> Result<bool> {
    let status = store.status()?;
    if show.json {
        show.value(&status)?;
    } else {
        show.line(&glance(&status));
    }
    Ok(true)
}

/// The store's status, again and again; on a terminal in one place.
pub fn top(store: &Store, interval: f64, count: Option<u64>, show: Show) -> Result<bool> {
    let interval = Duration::try_from_secs_f64(interval)
        .map_err(|_| anyhow!("--interval {interval}: write a number of seconds such as 0.5"))?;
    let clear = !show.json && std::io::stdout().is_terminal();
    for look in 0.. {
        if count == Some(look) {
            break;
        }
        if look > 0 {
            std::thread::sleep(interval);
        }
        if clear {
            show.line("\x1b[H\x1b[2J");
        }
        status(store, show)?;
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
    format!("{} objects, {} replicas owed\n{rows}", status.objects, status.owed)
}
