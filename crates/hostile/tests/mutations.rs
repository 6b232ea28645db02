//! Seeded mutations of valid inputs, for each parser. `CASES` says how many for each; a finding prints its seed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::panic::catch_unwind;

use terrace_hostile::{ALL_PARSERS, Parser};
use terrace_testkit::Random;

/// Values at which lengths and offsets overflow.
const BOUNDARY_NUMBERS: [u64; 8] = [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

fn mutate(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.pick(samples).clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        let some = at..bytes.len().min(at + 1 + random.below(40) as usize);
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.bits() as u8,
            2 => {
                let number = random.pick(&BOUNDARY_NUMBERS).to_le_bytes();
                let length = [1, 2, 4, 8][random.below(4) as usize];
                let end = bytes.len().min(at + length);
                bytes.splice(at..end, number[..length].to_vec());
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(some)),
            5 => {
                let other = random.pick(samples);
                let from = random.below(other.len() as u64) as usize;
                bytes.splice(at..at, other[from..other.len().min(from + some.len())].to_vec());
            }
            _ => {
                let copy = bytes[some].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// The inputs by which a parser panics.
fn find_panics(parser: &Parser, usual: u64) -> Vec<String> {
    let samples = (parser.samples)();
    assert!(!samples.is_empty(), "{} has no samples", parser.name);
    // A parser that refuses everything would be safe, and untested.
    assert!(samples.iter().all(|sample| (parser.parse)(sample)), "{} refuses a valid input", parser.name);
    let (cases, first) = (number("CASES", usual), number("SEED", 1));
    let inputs = (first..first + cases).map(|seed| (seed, mutate(&mut Random::new(seed), &samples)));
    let found = inputs.filter(|(_, input)| catch_unwind(|| (parser.parse)(input)).is_err());
    found.map(|(seed, input)| format!("{} with SEED={seed} CASES=1, {} bytes", parser.name, input.len())).collect()
}

/// The peak of this process's memory. A length that is believed would ask for gigabytes.
fn assert_memory_bounded() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 1 << 20, "{kib} KiB");
}

#[test]
fn no_parser_panics() {
    let mut found = Vec::new();
    for parser in ALL_PARSERS {
        // A case of these makes a catalog or a brain.
        let usual = if matches!(parser.name, "log" | "snapshot" | "brain") { 100 } else { 2000 };
        found.extend(find_panics(parser, usual));
        assert_memory_bounded();
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
