//! Random numbers for commands that choose at random. Nothing secret depends on them.

use std::hash::{BuildHasher, RandomState};

/// A random number.
pub fn random() -> u64 {
    // Each state has keys of its own, which the standard library takes from the system.
    RandomState::new().hash_one(0u8)
}

/// A random number below `bound`; 0 if that is 0.
pub fn random_below(bound: usize) -> usize {
    (random() % (bound.max(1) as u64)) as usize
}

/// Chooses some of `count` positions: each at most once, or, if `repeats`, `wanted` times whatever was chosen before.
pub fn choose(count: usize, wanted: usize, repeats: bool) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    if repeats {
        return (0..wanted).map(|_| random_below(count)).collect();
    }
    let mut all: Vec<usize> = (0..count).collect();
    let wanted = wanted.min(count);
    for at in 0..wanted {
        all.swap(at, at + random_below(count - at));
    }
    all.truncate(wanted);
    all
}
