//! `terrace explain`: the encodings and tiers considered for some bytes, the choice, and the reasons.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Args, value_parser};
use serde_json::json;
use terrace::explain::{Replica, Verdict, Weighed};
use terrace::{Explained, PutOptions, Question, Store, WhatIf, element_of, key};

use crate::output::{Show, name, on_node, size, table};
use crate::wishes::Wishes;

/// The number of the cheapest encodings shown for each tier, besides the chosen and the stored ones.
const CHEAPEST_SHOWN: usize = 3;

#[derive(Args)]
pub struct Explain {
    /// A key, or a file if nothing is stored under that key.
    #[arg(value_name = "KEY|PATH")]
    pub subject: OsString,
    /// Explain the file as if it were stored under this key.
    #[arg(long = "as", value_name = "KEY")]
    pub key: Option<OsString>,
    /// Assume another property of a tier, such as tier.nvme.capacity=2TiB. PROPERTY is capacity, read, write, latency, persistent or
    /// watts. Can be repeated.
    #[arg(long, value_name = "tier.TIER.PROPERTY=VALUE")]
    pub what_if: Vec<WhatIf>,
    /// Show all encodings instead of the three cheapest of each tier.
    #[arg(long)]
    pub all: bool,
    /// Number of replicas.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub replicas: Option<u8>,
    #[command(flatten)]
    pub wishes: Wishes,
}

pub fn explain(store: &Store, asked: &Explain, show: Show) -> Result<bool> {
    asked.wishes.check(store.config())?;
    let (key, block, kept) = subject(store, asked)?;
    let plain = PutOptions { element: element_of(&key), ..kept };
    let question = Question { key: &key, block: &block, options: &plain, what_if: &[] };
    let now = store.explain(&question)?;
    let wishes = PutOptions { replicas: asked.replicas, ..asked.wishes.options() };
    let supposed = !asked.what_if.is_empty() || wishes != PutOptions::default();
    let options = wishes.over(&plain);
    let then = supposed.then(|| store.explain(&Question { options: &options, what_if: &asked.what_if, ..question }));
    let then = then.transpose()?;
    if show.json {
        show.value(&json!({"key": key::show(&key), "now": now, "then": then}))?;
        return Ok(true);
    }
    let Explained { format, elements, distribution, entropy, .. } = &now;
    let known: Vec<&str> =
        [Some(format), elements.as_ref(), distribution.as_ref()].into_iter().flatten().map(String::as_str).collect();
    let of = if block.is_empty() { "no bytes".into() } else { format!("the first {}", size(block.len() as u64)) };
    show.line(&format!("{}: {of}; {}, {entropy:.2} bits in a byte", name(&key), known.join(", ")))?;
    match &then {
        None => show.line(&words(&now, asked.all)),
        Some(then) => {
            show.line(&format!("as things are: {}", summary(&now)))?;
            show.line(&format!("as supposed:   {}", summary(then)))?;
            show.line(&words(then, asked.all))
        }
    }?;
    Ok(true)
}

/// Returns the requested key, a block of its bytes, and the requirements with which it was stored.
fn subject(store: &Store, asked: &Explain) -> Result<(Vec<u8>, Vec<u8>, PutOptions)> {
    let block = store.config().store.block.0;
    let stored = asked.subject.as_bytes();
    if let Some(named) = &asked.key {
        key::check(named.as_bytes()).context("--as")?;
    }
    if asked.key.is_none()
        && let Ok(object) = store.stat(stored)
    {
        return Ok((stored.to_vec(), store.first_block(stored)?, PutOptions::kept_with(stored, &object)?));
    }
    let path = Path::new(&asked.subject);
    if asked.key.is_some() && !path.exists() {
        let stored = store.stat(stored).is_ok();
        let instead = if stored { "; what is stored under that key is explained without --as" } else { "" };
        bail!("no file {:?} is there, and --as says under which key a file would be stored{instead}", path.display());
    }
    if !path.exists() {
        bail!("nothing is stored under {:?}, and no file is there; `terrace ls` lists what is stored", path.display());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(block).read_to_end(&mut bytes).with_context(|| format!("reading {}", path.display()))?;
    let name = path.file_name().unwrap_or_default();
    Ok((asked.key.as_deref().unwrap_or(name).as_bytes().to_vec(), bytes, PutOptions::default()))
}

/// Summarises the places of the replicas in one line.
fn summary(explained: &Explained) -> String {
    let piece = |replica: &Replica| {
        let pieces = replica.pieces.iter().map(|piece| {
            let (tier, ..) = &explained.targets[usize::from(piece.target)];
            format!("{tier} {}", piece.encoding)
        });
        let pieces: Vec<String> = pieces.collect();
        if pieces.is_empty() { "no place".into() } else { pieces.join(" + ") }
    };
    let of = &explained.explanation;
    if of.bytes == 0 {
        return "nothing is stored of no bytes".into();
    }
    let replicas: Vec<String> = of.replicas.iter().map(piece).collect();
    format!("{}; {} stored", replicas.join(", "), size(of.stored))
}

/// Formats the considered candidates, replica by replica.
fn words(explained: &Explained, all: bool) -> String {
    let of = &explained.explanation;
    if of.bytes == 0 {
        return "nothing is stored of no bytes: there is an entry in the catalog, and no replica".into();
    }
    let unit = if of.energy { "J" } else { "ms" };
    let scale = if of.energy { 1.0 } else { 1e3 };
    let mut text = format!("{} of {} replicas", of.replicas.iter().filter(|r| !r.pieces.is_empty()).count(), of.wanted);
    text += &format!(", expected to be read {:.1} times; {} stored\n", of.reads, size(of.stored));
    for line in of.resolutions.iter().map(ToString::to_string).chain(of.gave_way.iter().map(ToString::to_string)) {
        text += &format!("{line}\n");
    }
    if !of.proven {
        text += "a cheaper plan may exist: the search was cut short\n";
    }
    for (number, replica) in of.replicas.iter().enumerate() {
        let w = replica.weights;
        text += &format!(
            "\nreplica {number}: weights of encoding {:.2}, decoding {:.2}, ratio {:.2}\n",
            w.compress, w.decompress, w.ratio
        );
        let mut rows = table(&["tier", "encoding", "stored", "really", &format!("cost, {unit}"), "verdict", "where"]);
        for weighed in shown(explained, replica, all) {
            let Weighed { tier, target, encoding, cost, stored, verdict } = weighed;
            let really = measured(explained, weighed);
            let place = match verdict {
                Verdict::Chosen { .. } => {
                    let (_, place, node) = &explained.targets[usize::from(*target)];
                    on_node(place, node.as_deref())
                }
                _ => String::new(),
            };
            rows.add_row([
                tier.clone(),
                encoding.to_string(),
                stored.to_string(),
                really.map_or(String::new(), |ratio| format!("{:.0}", of.bytes as f64 * ratio)),
                format!("{:.3}", cost * scale),
                verdict.to_string(),
                place,
            ]);
        }
        text += &format!("{rows}\n");
    }
    text.trim_end().to_owned()
}

/// Returns the rows to show, by tier and then by cost: the chosen ones, the stored ones, and the cheapest of each tier.
fn shown<'a>(explained: &Explained, replica: &'a Replica, all: bool) -> Vec<&'a Weighed> {
    let mut rows: Vec<&Weighed> = replica.weighed.iter().collect();
    rows.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut seen: HashMap<&str, usize> = HashMap::new();
    rows.retain(|row| {
        let so_far = seen.entry(&row.tier).or_default();
        *so_far += 1;
        let chosen = matches!(row.verdict, Verdict::Chosen { .. });
        all || chosen || measured(explained, row).is_some() || *so_far <= CHEAPEST_SHOWN
    });
    let tier = |row: &Weighed| replica.weighed.iter().position(|first| first.tier == row.tier);
    rows.sort_by_key(|row| tier(row));
    rows
}

/// Returns the measured ratio of stored bytes to bytes for a tier and an encoding, if the object is stored so.
fn measured(explained: &Explained, row: &Weighed) -> Option<f64> {
    let encoding = row.encoding.to_string();
    let same = |m: &&terrace::Measured| m.tier == row.tier && m.encoding == encoding;
    explained.measured.iter().find(same).map(|m| m.stored as f64 / m.bytes.max(1) as f64)
}
