//! `terrace profile`: measures codecs and tiers on this machine, as a seed for the predictor.

mod device;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use terrace::Config;
use terrace_predict::made::{MadeKind, generate};
use terrace_predict::{Predictor, ProfiledTier};

use crate::output::{Show, complain, count, size, table};
use crate::predictor::{keep, kept, load};
use crate::sample::{BLOCK_BYTES, sample_blocks};

/// The time for all tiers; together with the time for codecs, a profile takes 20 seconds.
const TIERS_TIME: Duration = Duration::from_secs(6);
/// The default path of the seed without a store.
const DEFAULT_SEED_PATH: &str = "seed.json";

#[derive(Args)]
pub struct Profile {
    /// Measure on blocks of these files, which should resemble the data to store.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Measure the tiers of this file instead of the store's.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run encodings for this many seconds. Encodings that are left out keep their earlier figures.
    #[arg(long, value_name = "N", default_value_t = 12.0)]
    pub seconds: f64,
    /// Write the figures to this file [default: into the store, or seed.json if there is none].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

pub fn profile(store: &Path, asked: &Profile, show: Show) -> Result<bool> {
    let in_store = asked.config.is_none() && store.join("store").exists();
    let out = match &asked.out {
        Some(out) => out.clone(),
        None if in_store => kept(store),
        None => PathBuf::from(DEFAULT_SEED_PATH),
    };
    let config = match &asked.config {
        Some(path) => Some(path.clone()),
        None => in_store.then(|| store.join("terrace.toml")),
    };
    let mut predictor = if in_store && kept(store).exists() { load(&kept(store))? } else { Predictor::default() };
    let read = |path: PathBuf| Config::read(&path);
    let config = config.map(read).transpose()?;
    let time = Duration::try_from_secs_f64(asked.seconds)
        .map_err(|_| anyhow!("--seconds {}: write a number such as 5", asked.seconds))?;
    let blocks = codecs(&mut predictor, asked.data.as_deref(), time, show)?;
    let tiers = config.map_or_else(Vec::new, |config| tiers(&config, show));
    for (name, tier) in &tiers {
        predictor.keep_tier(name, *tier);
    }
    keep(&predictor, &out)?;
    let mut rows = table(&["tier", "writes", "reads", "latency"]);
    for (name, ProfiledTier { write, read, latency }) in &tiers {
        let rate = |rate: f64| format!("{}/s", size(rate as u64));
        rows.add_row([name.clone(), rate(*write), rate(*read), format!("{:.3} ms", latency * 1e3)]);
    }
    let measured = if tiers.is_empty() { String::new() } else { format!("{rows}\n") };
    let words =
        format!("{measured}every encoding was run on {}; the seed is in {}", count(blocks, "block"), out.display());
    let tiers: serde_json::Map<_, _> = tiers.iter().map(|(name, tier)| (name.clone(), json!(tier))).collect();
    show.result(&json!({"blocks": blocks, "tiers": tiers, "seed": out}), &words)?;
    Ok(true)
}

/// Runs every encoding on blocks of the given data, then on generated ones, until the time is up.
fn codecs(predictor: &mut Predictor, data: Option<&Path>, time: Duration, show: Show) -> Result<u64> {
    let (start, bar) = (Instant::now(), show.steps(time.as_millis() as u64));
    let given = data.map_or_else(|| Ok(Vec::new()), sample_blocks)?;
    let made_ones =
        (0..).flat_map(|seed| MadeKind::ALL_KINDS.into_iter().map(move |kind| generate(kind, BLOCK_BYTES, seed)));
    let all = given.into_iter().map(|(name, bytes)| (name, bytes, None));
    let all = all.chain(made_ones.map(|(bytes, elements)| ("made data".to_owned(), bytes, elements)));
    let mut blocks = 0;
    for (name, bytes, elements) in all {
        if start.elapsed() >= time {
            break;
        }
        bar.set_message(name);
        predictor.profile(&bytes, elements)?;
        bar.set_position(start.elapsed().as_millis() as u64);
        blocks += 1;
    }
    bar.finish_and_clear();
    Ok(blocks)
}

/// Measures each tier by its slowest target. Reports and skips a tier that cannot be measured.
fn tiers(config: &Config, show: Show) -> Vec<(String, ProfiledTier)> {
    let targets: usize = config.tiers.iter().map(|tier| tier.targets.len()).sum();
    let (bar, each) = (show.steps(targets as u64), TIERS_TIME / targets.max(1) as u32);
    let mut found = Vec::new();
    for tier in &config.tiers {
        bar.set_message(tier.name.clone());
        let mut slowest: Option<ProfiledTier> = None;
        for target in &tier.targets {
            match device::measure(tier, target, each.min(Duration::from_secs(1))) {
                Ok(now) => slowest = Some(slowest.map_or(now, |before| device::slower(before, now))),
                Err(e) => complain(&format!("tier {:?} is not measured: {}: {e}", tier.name, target.path.display())),
            }
            bar.inc(1);
        }
        found.extend(slowest.map(|slowest| (tier.name.clone(), slowest)));
    }
    bar.finish_and_clear();
    found
}
