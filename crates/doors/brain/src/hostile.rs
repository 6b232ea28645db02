//! Saved bytes that anything may have written, for the fuzzers of `crates/hostile`.

use terrace_cost::MeasuredSpeed;

use crate::Failure;
use crate::brain::Brain;
use crate::request::EMPTY_REQUEST;
use crate::saved::Saved;
use crate::storage::Storage;
use crate::target::DescribedTarget;

/// A block that is long enough to be measured.
fn block() -> Vec<u8> {
    (0..16_384u32).flat_map(|number| (number / 3).to_le_bytes()).collect()
}

/// Makes a brain for one slow tier.
fn new_brain() -> Result<Brain, Failure> {
    let slow = MeasuredSpeed { rate: 1e6, latency: 0.0 };
    let target = DescribedTarget {
        tier: "disk".into(),
        domain: None,
        reading: slow,
        writing: slow,
        free: 1 << 40,
        total: 1 << 40,
        watts: 0.0,
        lanes: 1,
        persistent: true,
    };
    Ok(Brain::new(Storage::new(&[target])?))
}

fn save_experience() -> Result<Vec<u8>, Failure> {
    let brain = new_brain()?;
    brain.plan(&EMPTY_REQUEST, &block(), false)?.0?;
    brain.save()
}

/// Returns what a brain saves that has planned.
pub fn sample_saved() -> Vec<Vec<u8>> {
    save_experience().into_iter().collect()
}

/// Loads bytes whose checksum is corrected, and plans, describes and saves with what they say. Returns whether they can be loaded.
pub fn parse_saved(bytes: &[u8]) -> bool {
    let Ok(brain) = new_brain() else { return false };
    let is_loaded = brain.load(&Saved::seal(bytes)).is_ok();
    let is_usable = brain.plan(&EMPTY_REQUEST, &block(), true).is_ok_and(|(answer, _)| answer.is_ok());
    assert!(is_usable && brain.save().is_ok(), "a brain works, whatever was loaded");
    brain.describe();
    is_loaded
}
