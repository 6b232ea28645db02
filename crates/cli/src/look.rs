//! Looking: where things are and how they do.

use anyhow::Result;
use serde_json::json;
use terrace::report::ReplicaState;
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
                entry["key_base64"] = base64(key).into();
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

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
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
        return Ok(true);
    }
    show.line(&format!("{} objects, {} replicas owed", status.objects, status.owed));
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
    show.line(&rows.to_string());
    Ok(true)
}
