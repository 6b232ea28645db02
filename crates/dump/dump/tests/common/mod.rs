//! Stores of nodes, and buffers with natural duplicates.

#![allow(dead_code, missing_docs, clippy::unwrap_used)]

pub mod site;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use terrace::{Config, Store};

/// The stores of nodes, in a directory that is removed with them.
pub struct Place {
    dir: TempDir,
    made: usize,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap(), made: 0 }
    }

    /// Makes a new store.
    pub fn store(&mut self) -> Store {
        self.made += 1;
        let at = self.dir.path().join(self.made.to_string());
        let disk = at.join("disk");
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
        Store::init(&at.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
    }

    /// Makes a new store whose first tier is volatile. Returns the directory of that tier.
    pub fn volatile(&mut self) -> (Store, PathBuf) {
        self.made += 1;
        let at = self.dir.path().join(self.made.to_string());
        let tier = |name: &str, more: &str| {
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n{more}", at.join(name).display())
        };
        let text = tier("ram", "persistent = false\n") + &tier("disk", "");
        (Store::init(&at.join("store"), &Config::parse(&text, "test").unwrap()).unwrap(), at.join("ram"))
    }

    pub fn stores(&mut self, count: usize) -> Vec<Store> {
        (0..count).map(|_| self.store()).collect()
    }
}

/// Lists the files below a directory.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The size of a chunk in these tests.
pub const CHUNK_BYTES: usize = 256;

fn random(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

/// Returns the bytes of a chunk, by number.
pub fn chunk(number: u64) -> Vec<u8> {
    random(number).take(CHUNK_BYTES).collect()
}

/// Makes two buffers of a rank: chunks that all ranks have, chunks that neighbours share, chunks of its own, one of
/// them twice, and a short end. `round` changes a few chunks.
pub fn buffers(rank: u32, round: u64) -> Vec<Vec<u8>> {
    let rank = u64::from(rank);
    let all = (0..12).chain([3, 3]);
    let pairs = (0..6).map(|i| 1000 + rank / 2 * 100 + i);
    let own = (0..4 + rank % 3 * 4).map(|i| 100_000 + rank * 1000 + i);
    let new = (0..round * 2).map(|i| 1_000_000 + rank * 1000 + i);
    let first: Vec<u8> = all.chain(own).flat_map(chunk).chain(random(50_000_000 + rank).take(77)).collect();
    vec![first, Vec::new(), pairs.chain(new).flat_map(chunk).collect()]
}

pub fn slices(buffers: &[Vec<u8>]) -> Vec<&[u8]> {
    buffers.iter().map(Vec::as_slice).collect()
}

/// Returns all sets of `count` elements of `0..of`.
pub fn sets(of: usize, count: usize) -> Vec<Vec<usize>> {
    let all = (0u32..1 << of).filter(|set| set.count_ones() as usize == count);
    all.map(|set| (0..of).filter(|i| set & (1 << i) != 0).collect()).collect()
}
